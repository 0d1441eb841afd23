#include "launcher/shim/stdin_source.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::size_t kBufferBytes = 65536;

}  // namespace

StdinSource::StdinSource(EventLoop& loop, const JobSpec& job)
    : loop_(loop), job_(job), terminal_(stream_kind(0).terminal) {}

StdinSource::~StdinSource() {
  begin_attempt();
  if (watching_) loop_.forget(0);
}

void StdinSource::begin_attempt() {
  for (const Reader& reader : readers_) {
    if (reader.pipe.valid()) loop_.forget(reader.pipe.get());
  }
  readers_.clear();
  if (watching_) loop_.forget(0);
  watching_ = false;
}

Result<int> StdinSource::descriptor_for(int rank, UniqueFd& keep) {
  const bool reads =
      job_.stdin_mode == StdinMode::all || (job_.stdin_mode == StdinMode::one && rank == job_.stdin_rank);
  if (!reads) return -1;
  if (!copies()) return 0;
  TRIREME_ASSIGN_OR_RETURN(Pipe pipe, make_pipe());
  TRIREME_RETURN_IF_ERROR(set_nonblocking(pipe.writer.get()));
  keep = std::move(pipe.reader);
  const int fd = pipe.writer.get();
  TRIREME_RETURN_IF_ERROR(loop_.watch(fd, 0, [this] { pump(); }));
  readers_.push_back(Reader{std::move(pipe.writer)});
  if (readers_.size() == 1) loop_.after_ms(0, [this] { pump(); });  // When all readers are known.
  return keep.get();
}

void StdinSource::send_to(Reader& reader) {
  while (reader.pipe.valid() && reader.sent < buffer_.size()) {
    const Transfer sent = write_some(reader.pipe.get(), std::string_view(buffer_).substr(reader.sent));
    if (sent.state == Transfer::State::would_block) break;
    if (sent.state != Transfer::State::moved) {  // It closed its input, or has ended.
      loop_.forget(reader.pipe.get());
      reader.pipe.reset();
      return;
    }
    reader.sent += sent.bytes;
  }
  if (!reader.pipe.valid()) return;
  if (ended_ && reader.sent == buffer_.size()) {
    loop_.forget(reader.pipe.get());
    reader.pipe.reset();
    return;
  }
  const std::uint32_t interest = reader.sent < buffer_.size() ? EventLoop::kWrite : 0;
  if (!loop_.set_interest(reader.pipe.get(), interest).is_ok()) reader.pipe.reset();
}

void StdinSource::drop_sent() {
  std::size_t sent = buffer_.size();
  for (const Reader& reader : readers_) {
    if (reader.pipe.valid()) sent = std::min(sent, reader.sent);
  }
  buffer_.erase(0, sent);
  for (Reader& reader : readers_) reader.sent -= std::min(sent, reader.sent);
}

void StdinSource::pump() {
  const auto is_open = [](const Reader& reader) { return reader.pipe.valid(); };
  while (true) {
    for (Reader& reader : readers_) send_to(reader);
    drop_sent();
    const bool wanted = !ended_ && buffer_.empty() && std::any_of(readers_.begin(), readers_.end(), is_open);
    if (watching_ && !loop_.set_interest(0, wanted ? EventLoop::kRead : 0).is_ok()) return;
    if (!wanted) return;
    if (!watching_ && pollable_) {  // What cannot be watched (a regular file) is always ready.
      watching_ = pollable_ = loop_.watch(0, EventLoop::kRead, [this] { pump(); }).is_ok();
    }
    if (watching_ && !input_ready(0)) return;
    char bytes[kBufferBytes];
    const Transfer got = read_some(0, bytes, sizeof(bytes));
    if (got.state == Transfer::State::would_block) return;
    ended_ = got.state != Transfer::State::moved;
    buffer_.append(bytes, got.bytes);
  }
}

}  // namespace trireme
