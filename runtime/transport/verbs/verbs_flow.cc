#include "runtime/transport/verbs/verbs_flow.h"

#include <algorithm>

namespace trireme {
namespace {

// The longest fragment: long enough for the device to run at full speed, short enough for
// the receiver to work on one while the next travels.
constexpr std::uint64_t kLongestFragment = 64 * 1024;
// What is shorter goes over one rail.
constexpr std::uint64_t kShortestStripe = 8 * 1024;

std::size_t window(std::size_t rails) {
  return rails * static_cast<std::size_t>(kVerbsFragmentsPerRail);
}

}  // namespace

VerbsSendFlow::VerbsSendFlow(std::size_t rails, std::uint64_t ring_bytes)
    : ring_bytes_(ring_bytes),
      flights_(window(rails)),
      open_bytes_(rails),
      open_fragments_(rails),
      places_used_(rails) {}

std::optional<std::size_t> VerbsSendFlow::choose_rail() const {
  std::optional<std::size_t> best;
  for (std::size_t rail = 0; rail < places_used_.size(); ++rail) {
    if (std::max(places_used_[rail], open_fragments_[rail]) >= kVerbsFragmentsPerRail) continue;
    if (!best || open_bytes_[rail] < open_bytes_[*best]) best = rail;
  }
  return best;
}

std::optional<VerbsFragment> VerbsSendFlow::cut(std::uint64_t pending) {
  if (peer_ring_bytes_ == 0) return std::nullopt;
  const std::uint64_t free_bytes = peer_ring_bytes_ - (posted_ - credit_);
  // A fragment lies in one piece in both rings.
  const std::uint64_t contiguous =
      std::min(peer_ring_bytes_ - posted_ % peer_ring_bytes_, ring_bytes_ - posted_ % ring_bytes_);
  const std::uint64_t rails = places_used_.size();
  const std::uint64_t share = std::clamp((pending + rails - 1) / rails, kShortestStripe, kLongestFragment);
  const std::uint64_t bytes = std::min({pending, free_bytes, contiguous, share});
  const std::optional<std::size_t> rail = choose_rail();
  const bool window_full = next_number_ - std::min(oldest_uncredited_, oldest_open_) >= flights_.size();
  if (bytes == 0 || !rail || window_full) return std::nullopt;
  const VerbsFragment fragment{posted_, static_cast<std::uint32_t>(bytes), next_number_, *rail};
  posted_ += bytes;
  flight(next_number_) = {.end = posted_, .bytes = fragment.bytes, .rail = *rail, .done = false};
  ++next_number_;
  open_bytes_[*rail] += bytes;
  ++open_fragments_[*rail];
  ++places_used_[*rail];
  return fragment;
}

std::optional<VerbsFragment> VerbsSendFlow::next_in_place(std::uint64_t bytes) {
  TRIREME_CHECK(unposted() == 0, "in-place bytes would overtake staged ones");
  const std::optional<VerbsFragment> fragment = cut(std::min(bytes, room()));
  if (fragment) tail_ += fragment->bytes;
  return fragment;
}

void VerbsSendFlow::completed(std::uint64_t number) {
  Flight& finished = flight(number);
  finished.done = true;
  open_bytes_[finished.rail] -= finished.bytes;
  --open_fragments_[finished.rail];
  while (oldest_open_ < next_number_ && flight(oldest_open_).done) {
    released_ = flight(oldest_open_).end;
    ++oldest_open_;
  }
}

Status VerbsSendFlow::credited(std::uint32_t immediate) {
  const std::uint64_t position = verbs_message_value(immediate, credit_);
  if (position > posted_) return data_loss("the peer acknowledges bytes that were not sent");
  credit_ = position;
  while (oldest_uncredited_ < next_number_ && flight(oldest_uncredited_).end <= credit_) {
    --places_used_[flight(oldest_uncredited_).rail];
    ++oldest_uncredited_;
  }
  return Status::ok();
}

VerbsReceiveFlow::VerbsReceiveFlow(std::size_t rails, std::uint64_t ring_bytes)
    : ring_bytes_(ring_bytes), arrived_bytes_(window(rails)), ends_(window(rails)) {}

Status VerbsReceiveFlow::arrived(std::uint32_t immediate, std::uint32_t bytes) {
  const std::uint64_t number = verbs_message_value(immediate, next_number_);
  std::uint32_t& slot = arrived_bytes_[number % arrived_bytes_.size()];
  if (number - oldest_unread_ >= arrived_bytes_.size() || slot != 0 || bytes == 0 || bytes > ring_bytes_) {
    return data_loss("the peer announced a fragment that cannot be");
  }
  slot = bytes;
  for (;;) {
    const std::size_t index = next_number_ % arrived_bytes_.size();
    if (arrived_bytes_[index] == 0) return Status::ok();
    tail_ += arrived_bytes_[index];
    if (tail_ - head_ > ring_bytes_) return data_loss("the peer wrote over bytes that were not read yet");
    ends_[index] = tail_;
    arrived_bytes_[index] = 0;
    ++next_number_;
    if (next_number_ - oldest_unread_ >= arrived_bytes_.size()) return Status::ok();
  }
}

void VerbsReceiveFlow::closed(std::uint32_t immediate) {
  final_number_ = verbs_message_value(immediate, next_number_);
}

void VerbsReceiveFlow::consume(std::uint64_t bytes) {
  TRIREME_CHECK(bytes <= readable(), "consume() of more bytes than peek() showed");
  head_ += bytes;
  while (oldest_unread_ < next_number_ && ends_[oldest_unread_ % ends_.size()] <= head_) {
    ++oldest_unread_;
    ++read_fragments_;
  }
}

bool VerbsReceiveFlow::credit_due() const {
  return head_ - credited_ >= std::max<std::uint64_t>(1, ring_bytes_ / 8) ||
         read_fragments_ >= static_cast<std::uint64_t>(kVerbsFragmentsPerRail) / 4;
}

std::uint32_t VerbsReceiveFlow::take_credit() {
  credited_ = head_;
  read_fragments_ = 0;
  return encode_verbs_message(VerbsMessageKind::credit, head_);
}

}  // namespace trireme
