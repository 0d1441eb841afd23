#include "runtime/rendezvous/output_queue.h"

namespace trireme::store {
namespace {

constexpr std::size_t kGatheredBytes = 4096;  // Payloads up to here are copied together.

}  // namespace

std::string& OutputQueue::tail() {
  if (chunks_.empty() || chunks_.back().shared) chunks_.emplace_back();
  return chunks_.back().owned;
}

void OutputQueue::push(MessageType type, std::uint64_t id, const std::shared_ptr<const std::string>& payload) {
  push_bytes(encode_frame_header(type, id, payload->size()));
  if (payload->size() <= kGatheredBytes) return push_bytes(*payload);
  bytes_ += payload->size();
  chunks_.push_back({{}, payload});
}

Status OutputQueue::flush(Socket& socket) {
  while (!chunks_.empty()) {
    const Chunk& front = chunks_.front();
    const std::string& data = front.shared ? *front.shared : front.owned;
    if (sent_of_front_ < data.size()) {
      TRIREME_ASSIGN_OR_RETURN(const std::size_t sent,
                               socket.send_some(data.data() + sent_of_front_, data.size() - sent_of_front_));
      if (sent == 0) return Status::ok();
      sent_of_front_ += sent;
      bytes_ -= sent;
    }
    if (sent_of_front_ < data.size()) continue;
    chunks_.pop_front();
    sent_of_front_ = 0;
  }
  return Status::ok();
}

}  // namespace trireme::store
