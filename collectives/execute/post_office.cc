#include "collectives/execute/post_office.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trireme {
namespace {

constexpr std::size_t kCreditBatch = kUnexpectedBytes / 4;
constexpr std::byte kZeros[kMessageAlignment] = {};
// Up to here whole messages go out with one commit, hence in one packet.
constexpr std::size_t kTogetherBytes = 16 * 1024;

std::size_t payload_bytes(const MessageHeader& header) {
  return header.count * size_of(header.type);
}

bool is_eager(const MessageHeader& header) {
  return payload_bytes(header) <= kEagerBytes;
}

// What a message takes of the receiver's room.
std::size_t room_of(const MessageHeader& header) {
  return kMessageHeaderBytes + (is_eager(header) ? padded(payload_bytes(header)) : 0);
}

}  // namespace

void PostOffice::post(OperationState* operation) {
  if (operation->call.kind == CallKind::send) {
    sends_.push_back(operation);
    return;
  }
  receives_.push_back({operation});
  const auto message = std::find_if(unexpected_.begin(), unexpected_.end(), [&](const Unexpected& candidate) {
    return candidate.header.tag == operation->call.tag && candidate.claimed == nullptr;
  });
  if (message != unexpected_.end()) match_unexpected(receives_.back(), message);
}

bool PostOffice::advance() {
  if (mismatch_ || !error_.is_ok()) return false;
  channel_->progress();
  bool moved = advance_in();
  moved |= advance_out();
  return moved;
}

// ---- outgoing ----

// One turn of large messages, then it is another peer's.
bool PostOffice::advance_out() {
  bool moved = false;
  const std::size_t turn = channel_->turn_bytes();
  for (std::size_t bytes = 0; bytes < turn && (out_ || choose_outgoing());) {
    std::size_t part = send_together();
    if (part == 0) part = move_outgoing();
    if (part == 0) break;
    bytes += part;
    moved = true;
  }
  const std::size_t before = sent_.size();
  complete_drained();
  return moved || sent_.size() != before;
}

bool PostOffice::may_start_send() const {
  if (sends_.empty()) return false;
  const Call& call = sends_.front()->call;
  return credit_ >= room_of({MessageKind::eager, call.type, call.tag, call.count, 0});
}

// Data that was asked for and messages that have not begun take turns: what announces itself
// while data is under way is cleared by the time the data is out.
bool PostOffice::choose_outgoing() {
  if (!controls_.empty()) {
    out_ = Outgoing{encode_message_header(controls_.front())};
    controls_.pop_front();
    return true;
  }
  const bool may_start = may_start_send();
  if (!cleared_.empty() && !(data_was_last_ && may_start)) {
    data_was_last_ = true;
    const Announced next = cleared_.front();
    cleared_.pop_front();
    const Call& call = next.operation->call;
    const MessageHeader header{MessageKind::data, call.type, call.tag, call.count, next.id};
    out_ = Outgoing{encode_message_header(header), static_cast<const std::byte*>(next.operation->input),
                    payload_bytes(header), 0, next.operation};
    return true;
  }
  if (!may_start) return false;
  data_was_last_ = false;
  start_send(sends_.front());
  sends_.pop_front();
  return true;
}

void PostOffice::start_send(OperationState* operation) {
  const Call& call = operation->call;
  MessageHeader header{MessageKind::eager, call.type, call.tag, call.count, next_id_++};
  credit_ -= room_of(header);
  if (is_eager(header)) {
    out_ = Outgoing{encode_message_header(header), static_cast<const std::byte*>(operation->input),
                    payload_bytes(header), 0, operation};
    return;
  }
  header.kind = MessageKind::announce;
  out_ = Outgoing{encode_message_header(header)};
  announced_.push_back({header.id, operation});
}

// Small messages that lie ready, a clearance or credit among them, in one piece. Returns its
// bytes. REQUIRES: out_.
std::size_t PostOffice::send_together() {
  if (out_->sent > 0 || kMessageHeaderBytes + padded(out_->bytes) > kTogetherBytes) return 0;
  const std::span<std::byte> room = channel_->reserve();
  const std::size_t most = std::min(room.size(), kTogetherBytes);
  std::size_t used = 0;
  while ((out_ || choose_outgoing()) && out_->sent == 0) {
    const std::size_t payload = out_->bytes;
    const std::size_t end = kMessageHeaderBytes + padded(payload);
    if (used + end > most) break;
    std::byte* to = room.data() + used;
    std::memcpy(to, out_->header.data(), kMessageHeaderBytes);
    if (payload > 0) std::memcpy(to + kMessageHeaderBytes, out_->payload, payload);
    std::memset(to + kMessageHeaderBytes + payload, 0, end - kMessageHeaderBytes - payload);
    used += end;
    end_outgoing();
  }
  if (used > 0) channel_->commit(used);
  return used;
}

void PostOffice::end_outgoing() {
  if (out_->ends != nullptr) sent_.push_back(out_->ends);
  out_.reset();
}

// Returns the bytes that moved.
std::size_t PostOffice::move_outgoing() {
  Outgoing& out = *out_;
  std::size_t moved = 0;
  const std::size_t payload_end = kMessageHeaderBytes + out.bytes;
  const std::size_t end = kMessageHeaderBytes + padded(out.bytes);
  if (out.sent < kMessageHeaderBytes) {
    moved = channel_->send_some(std::span<const std::byte>(out.header).subspan(out.sent));
    out.sent += moved;
  }
  if (out.sent >= kMessageHeaderBytes && out.sent < payload_end) {
    const std::size_t done = out.sent - kMessageHeaderBytes;
    const std::size_t part =
        channel_->send_some({out.payload + done, std::min(channel_->turn_bytes(), out.bytes - done)});
    out.sent += part;
    moved += part;
    large_moved_ |= part > 0 && out.bytes > kEagerBytes;
  }
  if (out.sent >= payload_end && out.sent < end) {
    const std::size_t part = channel_->send_some(std::span(kZeros).first(end - out.sent));
    out.sent += part;
    moved += part;
  }
  if (out.sent == end) end_outgoing();
  return moved;
}

void PostOffice::complete_drained() {
  if (sent_.empty() || !channel_->drained()) return;
  for (OperationState* operation : sent_) operation->complete({});
  sent_.clear();
}

// ---- incoming ----

bool PostOffice::advance_in() {
  bool moved = false;
  while (!mismatch_ && error_.is_ok() && (in_payload_ ? read_payload() : read_header())) moved = true;
  return moved;
}

bool PostOffice::read_header() {
  const std::size_t in = channel_->receive_some(std::span(in_header_).subspan(in_header_bytes_));
  in_header_bytes_ += in;
  if (in_header_bytes_ < kMessageHeaderBytes) return in > 0;
  in_header_bytes_ = 0;
  const std::optional<MessageHeader> header = decode_message_header(in_header_);
  if (header) {
    dispatch(*header);
  } else {
    error_ = data_loss("a message header is malformed: both ranks need the same version of Trireme");
  }
  return true;
}

void PostOffice::dispatch(const MessageHeader& header) {
  switch (header.kind) {
    case MessageKind::eager:
      if (!is_eager(header)) {
        error_ = data_loss("an eager message exceeds the agreed size");
        return;
      }
      return arrive(header);
    case MessageKind::announce:
      return arrive(header);
    case MessageKind::credit:
      credit_ += header.count;
      return;
    case MessageKind::clear:
      return clear_to_send(header.id);
    case MessageKind::data:
      for (const Receive& receive : receives_) {
        if (receive.matched && receive.id == header.id) return begin_payload(header, receive.operation, nullptr);
      }
      error_ = data_loss("data arrived that nobody was waiting for");
  }
}

void PostOffice::clear_to_send(std::uint64_t id) {
  const auto found =
      std::find_if(announced_.begin(), announced_.end(), [&](const Announced& send) { return send.id == id; });
  if (found == announced_.end()) {
    error_ = data_loss("clearance arrived for a message that was not announced");
    return;
  }
  found->operation->moved = true;  // Its receiver is there.
  cleared_.push_back(*found);
  announced_.erase(found);
}

// A message nobody has been promised to: the first receive of its tag takes it.
void PostOffice::arrive(const MessageHeader& header) {
  for (Receive& receive : receives_) {
    if (receive.matched || receive.operation->call.tag != header.tag) continue;
    if (!fits(*receive.operation, header)) return;
    match(receive, header);
    if (header.kind == MessageKind::eager) begin_payload(header, receive.operation, nullptr);
    return;
  }
  unexpected_.push_back({header, {}, header.kind == MessageKind::announce, nullptr});
  if (header.kind == MessageKind::announce) return;
  unexpected_.back().payload.resize(padded(payload_bytes(header)));
  begin_payload(header, nullptr, &unexpected_.back());
}

bool PostOffice::fits(const OperationState& operation, const MessageHeader& header) {
  if (operation.call.count == header.count && operation.call.type == header.type) return true;
  Call send;
  send.kind = CallKind::send;
  send.type = header.type;
  send.count = header.count;
  send.root = self_;
  send.tag = header.tag;
  mismatch_ = MessageMismatch{operation.call, send};
  return false;
}

void PostOffice::match(Receive& receive, const MessageHeader& header) {
  receive.matched = true;
  receive.operation->moved = true;  // Its sender is there.
  receive.id = header.id;
  owe_credit(header);
  if (header.kind == MessageKind::announce)
    controls_.push_back({MessageKind::clear, header.type, header.tag, 0, header.id});
}

void PostOffice::match_unexpected(Receive& receive, std::list<Unexpected>::iterator message) {
  if (!fits(*receive.operation, message->header)) return;
  match(receive, message->header);
  if (!message->complete) {
    message->claimed = receive.operation;
    return;
  }
  if (message->header.kind == MessageKind::eager) {
    OperationState* operation = receive.operation;
    const std::size_t bytes = payload_bytes(message->header);
    if (bytes > 0) std::memcpy(operation->output, message->payload.data(), bytes);
    complete_receive(operation);
  }
  unexpected_.erase(message);
}

void PostOffice::begin_payload(const MessageHeader& header, OperationState* operation, Unexpected* unexpected) {
  in_payload_ = true;
  in_message_ = header;
  in_operation_ = operation;
  in_unexpected_ = unexpected;
  in_received_ = 0;
}

// Returns true when something moved or the payload ended.
bool PostOffice::read_payload() {
  const std::size_t bytes = payload_bytes(in_message_);
  const std::size_t end = padded(bytes);
  std::size_t moved = 0;
  if (in_received_ < bytes) {
    std::byte* target =
        in_unexpected_ != nullptr ? in_unexpected_->payload.data() : static_cast<std::byte*>(in_operation_->output);
    moved = channel_->receive_some({target + in_received_, std::min(channel_->turn_bytes(), bytes - in_received_)});
    in_received_ += moved;
    large_moved_ |= moved > 0 && bytes > kEagerBytes;
  }
  if (in_received_ >= bytes && in_received_ < end) {
    std::byte rest[kMessageAlignment];
    const std::size_t part = channel_->receive_some(std::span(rest).first(end - in_received_));
    in_received_ += part;
    moved += part;
  }
  if (in_received_ < end) return moved > 0;
  end_payload();
  return true;
}

void PostOffice::end_payload() {
  in_payload_ = false;
  if (in_operation_ != nullptr) {
    complete_receive(in_operation_);
  } else {
    in_unexpected_->complete = true;
    if (OperationState* operation = in_unexpected_->claimed; operation != nullptr) {
      const std::size_t bytes = payload_bytes(in_message_);
      if (bytes > 0) std::memcpy(operation->output, in_unexpected_->payload.data(), bytes);
      complete_receive(operation);
      unexpected_.remove_if([&](const Unexpected& message) { return &message == in_unexpected_; });
    }
  }
  in_operation_ = nullptr;
  in_unexpected_ = nullptr;
}

void PostOffice::complete_receive(OperationState* operation) {
  const auto found = std::find_if(receives_.begin(), receives_.end(),
                                  [&](const Receive& receive) { return receive.operation == operation; });
  receives_.erase(found);
  operation->complete({});
}

// A little at a time, so that most receives cost no message back.
void PostOffice::owe_credit(const MessageHeader& header) {
  owed_credit_ += room_of(header);
  if (owed_credit_ < kCreditBatch) return;
  controls_.push_back({MessageKind::credit, DataType::u8, 0, owed_credit_, 0});
  owed_credit_ = 0;
}

// ---- bookkeeping ----

std::size_t PostOffice::pending() const {
  return sends_.size() + announced_.size() + cleared_.size() + sent_.size() + receives_.size() +
         (out_ && out_->ends != nullptr ? 1 : 0);
}

template <typename Visit>
void PostOffice::for_each_operation(const Visit& visit) const {
  for (OperationState* operation : sends_) visit(operation);
  for (const Announced& send : announced_) visit(send.operation);
  for (const Announced& send : cleared_) visit(send.operation);
  for (OperationState* operation : sent_) visit(operation);
  for (const Receive& receive : receives_) visit(receive.operation);
  if (out_ && out_->ends != nullptr) visit(out_->ends);
}

const OperationState* PostOffice::oldest() const {
  const OperationState* oldest = nullptr;
  const auto consider = [&](const OperationState* operation) {
    if (oldest == nullptr || operation->progress_ticks < oldest->progress_ticks) oldest = operation;
  };
  for_each_operation(consider);
  return oldest;
}

void PostOffice::note_progress(std::uint64_t ticks) {
  const bool large_moved = std::exchange(large_moved_, false);
  for_each_operation([&](OperationState* operation) {
    if (large_moved || operation->moved) operation->note_progress(ticks);
  });
}

void PostOffice::fail(const Status& status) {
  std::vector<OperationState*> all;
  for_each_operation([&](OperationState* operation) { all.push_back(operation); });
  sends_.clear();
  announced_.clear();
  cleared_.clear();
  sent_.clear();
  receives_.clear();
  out_.reset();
  for (OperationState* operation : all) operation->complete(status);
}

}  // namespace trireme
