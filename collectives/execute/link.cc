#include "collectives/execute/link.h"

#include <cstring>

namespace trireme {
namespace {
constexpr std::byte kZeros[kMessageAlignment] = {};
// Up to here signature and payload go out with one commit, hence one ring of the bell.
constexpr std::size_t kTogetherBytes = 16 * 1024;
}  // namespace

bool Link::send(const SignedCall& call, std::span<const std::byte> payload, std::size_t& sent) {
  const std::size_t end = padded(payload.size());
  bool moved = false;
  if (out_sequence_ != call.call.sequence) {
    if (out_signature_sent_ == 0 && sent == 0 && end <= kTogetherBytes) {
      const std::span<std::byte> room = channel_->reserve();
      if (room.size() >= kSignatureBytes + end) {
        std::memcpy(room.data(), call.signature.data(), kSignatureBytes);
        if (end > 0) {
          std::memcpy(room.data() + kSignatureBytes, payload.data(), payload.size());
          std::memset(room.data() + kSignatureBytes + payload.size(), 0, end - payload.size());
        }
        channel_->commit(kSignatureBytes + end);
        out_sequence_ = call.call.sequence;
        sent = end;
        return true;
      }
    }
    const std::size_t out = channel_->send_some(std::span(call.signature).subspan(out_signature_sent_));
    out_signature_sent_ += out;
    if (out_signature_sent_ < kSignatureBytes) return out > 0;
    out_signature_sent_ = 0;
    out_sequence_ = call.call.sequence;
    moved = true;
  }
  std::size_t out = 0;
  if (sent < payload.size()) {
    out = channel_->send_some(payload.subspan(sent, std::min(channel_->turn_bytes(), payload.size() - sent)));
    sent += out;
    moved |= out > 0;
  }
  if (sent >= payload.size() && sent < end) {
    out = channel_->send_some(std::span(kZeros).first(end - sent));
    sent += out;
    moved |= out > 0;
  }
  return moved;
}

Link::Signed Link::check_signature(const SignedCall& call, bool& moved) {
  if (in_sequence_ == call.call.sequence) return Signed::matches;
  const std::size_t in = channel_->receive_some(std::span(in_signature_).subspan(in_signature_received_));
  in_signature_received_ += in;
  moved |= in > 0;
  if (in_signature_received_ < kSignatureBytes) return Signed::waiting;
  if (compares_ && std::memcmp(in_signature_.data(), call.signature.data(), kSignatureBytes) != 0)
    return Signed::differs;
  in_signature_received_ = 0;
  in_sequence_ = call.call.sequence;
  return Signed::matches;
}

bool Link::receive(std::span<std::byte> target, std::size_t& received) {
  bool moved = false;
  if (received < target.size()) {
    const std::size_t in =
        channel_->receive_some(target.subspan(received, std::min(channel_->turn_bytes(), target.size() - received)));
    received += in;
    moved = in > 0;
  }
  if (received >= target.size()) moved |= skip_padding(padded(target.size()), received);
  return moved;
}

bool Link::skip_padding(std::size_t end, std::size_t& received) {
  if (received >= end) return false;
  std::byte rest[kMessageAlignment];
  const std::size_t in = channel_->receive_some(std::span(rest).first(end - received));
  received += in;
  return in > 0;
}

std::size_t Link::bounce(std::size_t left, std::size_t width, bool& moved) {
  const std::size_t room = std::min(left, sizeof bounce_ - bounced_);
  const std::size_t in = channel_->receive_some(std::span(bounce_ + bounced_, room));
  bounced_ += in;
  moved |= in > 0;
  return bounced_ / width;
}

}  // namespace trireme
