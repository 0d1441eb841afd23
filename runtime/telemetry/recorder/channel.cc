// One communicator's ring. Writing a call: version odd, fields, version even. All stores
// release, so none passes the one that makes the version odd; on x86 they are plain moves.
#include "runtime/telemetry/api/recorder.h"

#include <algorithm>
#include <bit>

#include <trireme/platform/clock.h>

namespace trireme {

using namespace recorder_layout;

namespace {

constexpr int kStateShift = 24;
constexpr std::uint64_t kStateMask = std::uint64_t{0xff} << kStateShift;
constexpr std::uint64_t kFirstBucketBits = 10;

std::uint64_t version_of(std::uint64_t index) {
  return (2 * (index / kCalls + 1)) & 0xffffffff;
}

std::uint64_t with_state(std::uint64_t head, CallState state) {
  return (head & ~kStateMask) | std::uint64_t{static_cast<std::uint8_t>(state)} << kStateShift;
}

// Only the owner writes, so no addition needs to be atomic as a whole.
void add(Word& word, std::uint64_t amount) {
  word.store(word.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

std::size_t bucket_of(std::uint64_t nanoseconds) {
  const auto bits = static_cast<std::uint64_t>(std::bit_width(nanoseconds));
  return bits <= kFirstBucketBits ? 0 : std::min<std::size_t>((bits - kFirstBucketBits + 1) / 2, kBuckets - 1);
}

}  // namespace

RecorderChannel::RecorderChannel(std::shared_ptr<Recorder> recorder, Channel* channel, std::size_t index)
    : recorder_(std::move(recorder)), channel_(channel), index_(index) {}

RecorderChannel::~RecorderChannel() {
  recorder_->give_back(*this);
}

std::uint64_t RecorderChannel::enter(const CallRecord& call, std::uint64_t ticks) {
  const std::uint64_t index = next_++;
  const std::uint64_t version = version_of(index);
  auto& words = channel_->calls[index % kCalls].words;
  const std::uint64_t what = std::uint64_t{call.op} << 16 | std::uint64_t{static_cast<std::uint8_t>(call.type)} << 8 |
                             static_cast<std::uint8_t>(call.reduction);
  words[kHead].store((version - 1) << 32, std::memory_order_relaxed);
  words[kSequence].store(call.sequence, std::memory_order_release);
  words[kCount].store(call.count, std::memory_order_release);
  words[kEntered].store(ticks, std::memory_order_release);
  words[kStarted].store(0, std::memory_order_release);
  words[kEnded].store(0, std::memory_order_release);
  words[kPeers].store(std::uint64_t{static_cast<std::uint32_t>(call.root)} << 32 | static_cast<std::uint32_t>(call.tag),
                      std::memory_order_release);
  words[kWaits].store(0, std::memory_order_release);
  words[kHead].store(version << 32 | what, std::memory_order_release);
  channel_->head.store(next_, std::memory_order_release);
  return index;
}

// The call, if its place in the ring is still its own.
Call* RecorderChannel::find(std::uint64_t index, std::uint64_t& head) {
  Call& call = channel_->calls[index % kCalls];
  head = call.words[kHead].load(std::memory_order_relaxed);
  return head >> 32 == version_of(index) ? &call : nullptr;
}

void RecorderChannel::start(std::uint64_t index, std::uint8_t algorithm, std::uint64_t ticks) {
  std::uint64_t head = 0;
  Call* call = find(index, head);
  if (call == nullptr) return;
  call->words[kStarted].store(ticks, std::memory_order_release);
  call->words[kWaits].store(algorithm, std::memory_order_release);
  call->words[kHead].store(with_state(head, CallState::moving), std::memory_order_release);
}

void RecorderChannel::end(std::uint64_t index, bool ok, std::uint64_t ticks) {
  std::uint64_t head = 0;
  Call* call = find(index, head);
  if (call == nullptr) return;
  call->words[kEnded].store(ticks, std::memory_order_release);
  call->words[kHead].store(with_state(head, ok ? CallState::done : CallState::failed), std::memory_order_release);
  const std::uint64_t sequence = call->words[kSequence].load(std::memory_order_relaxed);
  if (ok && sequence != 0) channel_->done_sequence.store(sequence, std::memory_order_release);
  count(*call, head, ok, ticks);
}

void RecorderChannel::wait_for(std::uint64_t index, int world_rank) {
  std::uint64_t head = 0;
  Call* call = find(index, head);
  if (call == nullptr) return;
  const std::uint64_t algorithm = call->words[kWaits].load(std::memory_order_relaxed) & 0xffffffff;
  const auto peer = static_cast<std::uint64_t>(static_cast<std::uint32_t>(world_rank + 1));
  call->words[kWaits].store(peer << 32 | algorithm, std::memory_order_release);
}

Row& RecorderChannel::row(std::uint8_t op, std::uint8_t algorithm) {
  const std::size_t o = std::min<std::size_t>(op, kOps - 1);
  const std::size_t a = std::min<std::size_t>(algorithm, kAlgorithms - 1);
  std::uint8_t& known = row_of_[o][a];
  if (known == 0) {
    // The last row takes what finds no room.
    if (rows_used_ < kRows) ++rows_used_;
    known = static_cast<std::uint8_t>(rows_used_);
    Row& row = channel_->rows[known - 1];
    const std::uint64_t transports = channel_->transports.load(std::memory_order_relaxed);
    if (row.key.load(std::memory_order_relaxed) == 0) {
      row.key.store(std::uint64_t{1} << 32 | transports << 16 | o << 8 | a, std::memory_order_release);
    }
  }
  return channel_->rows[known - 1];
}

void RecorderChannel::count(const Call& call, std::uint64_t head, bool ok, std::uint64_t ticks) {
  const auto algorithm = static_cast<std::uint8_t>(call.words[kWaits].load(std::memory_order_relaxed));
  Row& counters = row(static_cast<std::uint8_t>(head >> 16), algorithm);
  if (!ok) return add(counters.failures, 1);
  const std::uint64_t begun = call.words[kEntered].load(std::memory_order_relaxed);
  const std::uint64_t spent = ticks > begun ? tsc_to_ns(ticks - begun) : 0;
  const auto type = static_cast<DataType>(static_cast<std::uint8_t>(head >> 8));
  add(counters.bytes, call.words[kCount].load(std::memory_order_relaxed) * size_of(type));
  add(counters.nanoseconds, spent);
  add(counters.buckets[bucket_of(spent)], 1);
}

}  // namespace trireme
