// Recording: what a flight recorder held at one moment, as plain values; from the memory
// of a live, stopped or dead rank, or from a file.
//
// Times are wall-clock nanoseconds since 1970 (UTC), made from the time-stamp counter and
// the clocks at the moment of reading, on the host of the rank. Texts hold no control
// characters. Everything read is checked: memory and files are other programs' output.
// Thread safety: values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/telemetry/api/recorder.h"

namespace trireme {

struct RecordedCall {
  std::uint64_t index = 0;     // Of all calls of its communicator, from 0.
  std::uint64_t sequence = 0;  // Of all collectives of its communicator, from 1; 0 for a message.
  std::string op;
  DataType type = DataType::u8;
  ReduceOp reduction = ReduceOp::sum;
  std::uint64_t count = 0;
  std::int32_t root = 0;  // Of messages: the other rank.
  std::int32_t tag = 0;   // Of a collective: a fingerprint of what else ranks must agree on.
  std::string algorithm;  // "" until it moves, and for messages.
  CallState state = CallState::entered;
  std::int64_t entered_ns = 0;
  std::int64_t started_ns = 0;  // 0: not yet.
  std::int64_t ended_ns = 0;    // 0: not yet.
  int waits_for = -1;           // World rank, when it has stood still for a while.

  bool is_message() const { return sequence == 0; }
  bool pending() const { return state == CallState::entered || state == CallState::moving; }
  // "all_reduce(count=100, f32, sum)", "send(count=3, i64, peer=2, tag=0)".
  std::string describe() const;
  // What all ranks must agree on is equal.
  bool agrees_with(const RecordedCall& other) const;
};

struct RecordedCommunicator {
  std::uint64_t context = 0;
  bool open = true;  // False: closed, and not yet overwritten.
  int rank = 0;      // Its own, in here.
  int size = 0;
  std::vector<int> members;  // World ranks; empty when they are too many and too irregular to be told.
  std::string transports;
  std::uint64_t calls = 0;           // All that were ever made.
  std::uint64_t done_sequence = 0;   // The last collective that ended well.
  std::vector<RecordedCall> recent;  // Oldest first.

  // The oldest call that has not ended; nullptr when there is none.
  const RecordedCall* pending_call() const;
  // The last collective entered; nullptr when there is none among the recent calls.
  const RecordedCall* last_collective() const;
  const RecordedCall* find(std::uint64_t sequence) const;
};

// One line of counters: calls that ended, of one operation, algorithm and transport.
struct CallCounters {
  std::string op;
  std::string algorithm;
  std::string transports;
  std::uint64_t failures = 0;
  std::uint64_t bytes = 0;  // count * size of an element, of successful calls.
  std::uint64_t nanoseconds = 0;
  std::array<std::uint64_t, recorder_layout::kBuckets> buckets{};  // Bounds: bucket_bound_ns().
};
// The upper bound of bucket `i`; UINT64_MAX for the last.
std::uint64_t bucket_bound_ns(std::size_t i);

struct NamedValue {
  std::string name;
  std::string labels;
  bool is_gauge = false;
  std::uint64_t value = 0;
};

struct RecordedFailure {
  std::string text;
  int culprit = -1;
  std::uint64_t context = 0;
};

struct Recording {
  RecorderIdentity identity;
  std::int64_t pid = 0;  // 0: its program has not joined (yet).
  std::uint64_t start_ticks = 0;
  std::int64_t launched_pid = 0;  // The process that its launcher started; 0: unknown.
  bool left = false;              // In order.
  std::int64_t read_at_ns = 0;
  std::uint64_t unrecorded = 0;  // Communicators that found no room.
  std::optional<RecordedFailure> failure;
  std::vector<RecordedCommunicator> communicators;
  std::vector<CallCounters> counters;
  std::vector<NamedValue> named;
};

struct ReadLimits {
  std::size_t calls = recorder_layout::kCalls;  // The last so many of each communicator.
  bool closed_communicators = true;
};

// Reads the recorder behind a descriptor; nothing of it need be ours. Errors:
// invalid_argument when it is no recorder or one of another version; data_loss when its
// numbers contradict each other.
Result<Recording> read_recording(int fd, const ReadLimits& limits = {});

// docs/formats/recorder.md: one JSON object.
std::string recording_to_json(const Recording& recording);
// Errors: invalid_argument that names the field.
Result<Recording> recording_from_json(std::string_view text);

}  // namespace trireme
