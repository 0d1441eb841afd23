// Link: one peer of one communicator: a channel and where its two streams stand.
//
// A stream is a sequence of messages. Within one collective the first message to a peer
// is preceded by the signature of the call; payload is padded to kMessageAlignment.
// Nothing blocks: every method moves what can be moved now.
// Thread safety: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "collectives/execute/arithmetic.h"
#include "collectives/execute/call.h"
#include "runtime/transport/api/channel.h"

namespace trireme {

// Bytes moved at one attempt, so that several operations take turns and the peer can
// start on what has been moved.
inline constexpr std::size_t kSliceBytes = 64 * 1024;

// The call whose messages are exchanged.
struct SignedCall {
  Call call;
  Signature signature;
};

class Link {
 public:
  // Without `compares` the peer's signature is read but not looked at (benchmarks only).
  explicit Link(std::unique_ptr<Channel> channel, bool compares = true)
      : channel_(std::move(channel)), compares_(compares) {}
  Channel& channel() { return *channel_; }

  // Moves payload from `sent` on (which counts padding too). The message is out when
  // sent == padded(payload.size()) and send() returned it so. Returns true when bytes
  // moved.
  bool send(const SignedCall& call, std::span<const std::byte> payload, std::size_t& sent);
  // True when the signature of `call` and all of the message are out.
  bool is_sent(const SignedCall& call, std::size_t payload, std::size_t sent) const {
    return sent == padded(payload) && out_sequence_ == call.call.sequence;
  }

  enum class Signed { waiting, matches, differs };
  // Takes in the peer's signature, unless that of this call is known already.
  Signed check_signature(const SignedCall& call, bool& moved);
  // The signature that differed.
  const Signature& received_signature() const { return in_signature_; }

  // Takes payload in as it is. `received` counts padding too.
  bool receive(std::span<std::byte> target, std::size_t& received);
  // Takes payload in through `consume(data, elements)`, called with whole, aligned
  // elements of `width` bytes in order. `received` counts padding too.
  template <typename Consume>
  bool receive_through(std::size_t bytes, std::size_t width, std::size_t& received, Consume&& consume);

 private:
  bool skip_padding(std::size_t end, std::size_t& received);
  // Copies into the bounce buffer; returns whole elements there.
  std::size_t bounce(std::size_t left, std::size_t width, bool& moved);

  std::unique_ptr<Channel> channel_;
  const bool compares_;
  std::uint64_t out_sequence_ = 0;  // Of the last signature sent completely.
  std::size_t out_signature_sent_ = 0;
  std::uint64_t in_sequence_ = 0;  // Of the last signature received and found equal.
  std::size_t in_signature_received_ = 0;
  Signature in_signature_{};
  alignas(64) std::byte bounce_[512];
  std::size_t bounced_ = 0;
};

template <typename Consume>
bool Link::receive_through(std::size_t bytes, std::size_t width, std::size_t& received, Consume&& consume) {
  bool moved = false;
  if (received < bytes) {
    const std::size_t left = bytes - received - bounced_;
    const std::span<const std::byte> there = bounced_ == 0 ? channel_->peek() : std::span<const std::byte>();
    const std::size_t direct = std::min({there.size(), left, kSliceBytes}) / width;
    if (direct > 0 && reinterpret_cast<std::uintptr_t>(there.data()) % width == 0) {
      consume(there.data(), direct);
      channel_->consume(direct * width);
      received += direct * width;
      moved = true;
    } else if (bounced_ > 0 || !there.empty()) {
      const std::size_t elements = bounce(left, width, moved);
      if (elements > 0) {
        consume(static_cast<const std::byte*>(bounce_), elements);
        received += elements * width;
        bounced_ -= elements * width;
        std::copy_n(bounce_ + elements * width, bounced_, bounce_);
      }
    }
  }
  if (received >= bytes) moved |= skip_padding(padded(bytes), received);
  return moved;
}

}  // namespace trireme
