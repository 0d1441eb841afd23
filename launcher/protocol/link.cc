#include "launcher/protocol/link.h"

#include <trireme/base/wire.h>

namespace trireme {
namespace {

constexpr std::size_t kHeaderBytes = 4;
// An environment and the last lines of a rank fit many times; garbage does not.
constexpr std::uint32_t kMaxMessageBytes = 64U << 20;

}  // namespace

Result<std::unique_ptr<Link>> Link::open(EventLoop& loop, Socket socket, std::function<void(Message)> on_message,
                                         std::function<void(const Status&)> on_end) {
  std::unique_ptr<Link> link(new Link(loop, std::move(socket)));
  link->on_message_ = std::move(on_message);
  link->on_end_ = std::move(on_end);
  Link* self = link.get();
  TRIREME_RETURN_IF_ERROR(loop.watch(self->socket_.fd(), EventLoop::kRead, [self] { self->on_ready(); }));
  return link;
}

Link::~Link() {
  if (open_) loop_.forget(socket_.fd());
}

void Link::send(const Message& message) {
  if (!open_) return;
  const std::string body = encode(message);
  WireWriter header;
  header.u32(static_cast<std::uint32_t>(body.size()));
  outgoing_ += header.data();
  outgoing_ += body;
  flush();
}

void Link::flush() {
  while (open_ && !outgoing_.empty()) {
    const Result<std::size_t> sent = socket_.send_some(outgoing_.data(), outgoing_.size());
    if (!sent.is_ok()) return end(sent.status());
    if (*sent == 0) break;
    outgoing_.erase(0, *sent);
  }
  if (!open_) return;
  const std::uint32_t interest = EventLoop::kRead | (outgoing_.empty() ? 0U : EventLoop::kWrite);
  if (const Status status = loop_.set_interest(socket_.fd(), interest); !status.is_ok()) end(status);
}

void Link::on_ready() {
  flush();
  if (!open_) return;
  const Status status = receive();
  deliver();
  if (open_ && !status.is_ok()) end(status);
}

Status Link::receive() {
  char buffer[16384];
  while (true) {
    TRIREME_ASSIGN_OR_RETURN(const std::size_t got, socket_.receive_some(buffer, sizeof(buffer)));
    if (got == 0) return Status::ok();
    incoming_.append(buffer, got);
  }
}

void Link::deliver() {
  std::size_t begin = 0;
  while (open_ && incoming_.size() - begin >= kHeaderBytes) {
    WireReader header(std::string_view(incoming_).substr(begin, kHeaderBytes));
    const std::uint32_t length = header.u32();
    if (length > kMaxMessageBytes)
      return end(data_loss("a launcher message claims " + std::to_string(length) + " bytes"));
    if (incoming_.size() - begin - kHeaderBytes < length) break;
    Result<Message> message = decode(std::string_view(incoming_).substr(begin + kHeaderBytes, length));
    if (!message.is_ok()) return end(message.status());
    begin += kHeaderBytes + length;
    on_message_(std::move(message).value());
  }
  incoming_.erase(0, begin);
}

void Link::end(const Status& why) {
  open_ = false;
  loop_.forget(socket_.fd());
  socket_.close();
  on_end_(why);
}

}  // namespace trireme
