// The arithmetic of a verbs channel's stream, one object per direction and end: which
// bytes are staged, written, completed and credited at the sender, which have arrived and
// are consumed at the receiver. No device and no memory in here.
//
// The sender cuts the stream into fragments and numbers them. A fragment is written to
// its stream position (modulo the ring's size), on any rail, and announced by a message
// that carries its number; numbers restore the order among rails. A credit is a stream
// position up to which the receiver has consumed: it returns room in the ring and, since
// every fragment that ends there was taken off the receive queue, places in that queue.
//
// Announcements are the 32 bits of the immediate: two of kind, thirty of a value modulo
// 2^30, which no window exceeds.
// Thread safety: none; owners lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

enum class VerbsMessageKind : std::uint32_t { data = 0, credit = 1, close = 2, ready = 3 };

inline constexpr std::uint32_t kVerbsValueMask = (1u << 30) - 1;
inline constexpr std::uint64_t kVerbsLargestRing = std::uint64_t{1} << 28;
// Fragments under way on one rail, and places in its queues for everything else (at most
// eight credits of bytes, four of fragments, ready, close, and as many again).
inline constexpr int kVerbsFragmentsPerRail = 64;
inline constexpr int kVerbsControlMessages = 32;

constexpr std::uint32_t encode_verbs_message(VerbsMessageKind kind, std::uint64_t value) {
  return static_cast<std::uint32_t>(kind) << 30 | (static_cast<std::uint32_t>(value) & kVerbsValueMask);
}
constexpr VerbsMessageKind verbs_message_kind(std::uint32_t immediate) {
  return static_cast<VerbsMessageKind>(immediate >> 30);
}
// The value nearest above or at `base` that is `immediate` modulo 2^30.
constexpr std::uint64_t verbs_message_value(std::uint32_t immediate, std::uint64_t base) {
  return base + ((immediate - static_cast<std::uint32_t>(base)) & kVerbsValueMask);
}

struct VerbsFragment {
  std::uint64_t position = 0;  // In the stream.
  std::uint32_t bytes = 0;
  std::uint64_t number = 0;
  std::size_t rail = 0;
};

class VerbsSendFlow {
 public:
  VerbsSendFlow(std::size_t rails, std::uint64_t ring_bytes);
  // The peer's ring; nothing is posted before.
  void connect(std::uint64_t peer_ring_bytes) { peer_ring_bytes_ = peer_ring_bytes; }

  std::uint64_t tail() const { return tail_; }
  std::uint64_t room() const { return ring_bytes_ - (tail_ - released_); }
  std::uint64_t unposted() const { return tail_ - posted_; }
  void stage(std::uint64_t bytes) { tail_ += bytes; }
  // The next fragment to write, of the staged bytes; nullopt when there are none, or
  // neither room nor a place for them at the peer.
  std::optional<VerbsFragment> next() { return cut(unposted()); }
  // The same for `bytes` that follow everything staged and posted, and are not staged.
  // REQUIRES: unposted() == 0.
  std::optional<VerbsFragment> next_in_place(std::uint64_t bytes);
  // The device has done with fragment `number`.
  void completed(std::uint64_t number);
  // Errors: data_loss when the peer credits what was not sent.
  Status credited(std::uint32_t immediate);
  bool drained() const { return released_ == tail_; }
  std::uint64_t next_number() const { return next_number_; }

 private:
  struct Flight {
    std::uint64_t end = 0;
    std::uint32_t bytes = 0;
    std::size_t rail = 0;
    bool done = false;
  };
  std::optional<VerbsFragment> cut(std::uint64_t pending);
  std::optional<std::size_t> choose_rail() const;
  Flight& flight(std::uint64_t number) { return flights_[number % flights_.size()]; }

  std::uint64_t ring_bytes_;
  std::uint64_t peer_ring_bytes_ = 0;
  std::uint64_t tail_ = 0;      // Accepted from the user.
  std::uint64_t posted_ = 0;    // Handed to a device.
  std::uint64_t released_ = 0;  // Done with, in order.
  std::uint64_t credit_ = 0;    // Consumed by the peer.
  std::uint64_t next_number_ = 0;
  std::uint64_t oldest_open_ = 0;  // The first fragment not completed.
  std::uint64_t oldest_uncredited_ = 0;
  std::vector<Flight> flights_;
  std::vector<std::uint64_t> open_bytes_;  // Per rail, posted and not completed.
  std::vector<int> open_fragments_;
  std::vector<int> places_used_;  // Per rail, posted and not credited.
};

class VerbsReceiveFlow {
 public:
  VerbsReceiveFlow(std::size_t rails, std::uint64_t ring_bytes);

  // A fragment was announced. Errors: data_loss when it cannot be: overruns the ring, or a
  // number that is not under way.
  Status arrived(std::uint32_t immediate, std::uint32_t bytes);
  // The peer sends nothing from that fragment on.
  void closed(std::uint32_t immediate);
  std::uint64_t head() const { return head_; }
  std::uint64_t readable() const { return tail_ - head_; }
  // REQUIRES: bytes <= readable().
  void consume(std::uint64_t bytes);
  // Worth a message: an eighth of the ring or half the places of a rail.
  bool credit_due() const;
  std::uint32_t take_credit();
  bool peer_closed() const { return final_number_.has_value(); }
  bool at_end() const { return final_number_ == next_number_ && readable() == 0; }

 private:
  std::uint64_t ring_bytes_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t credited_ = 0;
  std::uint64_t next_number_ = 0;     // The next in order.
  std::uint64_t oldest_unread_ = 0;   // The first fragment not consumed to its end.
  std::uint64_t read_fragments_ = 0;  // Since the last credit.
  std::optional<std::uint64_t> final_number_;
  std::vector<std::uint32_t> arrived_bytes_;  // By number; 0: not yet.
  std::vector<std::uint64_t> ends_;
};

}  // namespace trireme
