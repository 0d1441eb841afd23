// Recorder: what a rank does, written where others can read it even when the rank is
// stopped or dead.
//
// The launcher's shim makes the memory and hands it to the rank (TRIREME_RECORDER_FD),
// so it outlives the rank; a rank that nobody gave any makes its own. Either way it is a
// memfd, so whoever may read /proc/PID/fd may read it (read_recording in recording.h).
// When the kernel gives no memfd (ulimit -f), recording goes on into memory that nobody reads.
// Recording a call is a few stores to one cache line and reads no clock.
// Thread safety: Recorder: all methods. RecorderChannel: one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/telemetry/api/recorder_layout.h"

namespace trireme {

// Whose recorder it is.
struct RecorderIdentity {
  std::string job_id;
  std::string host;
  std::string program;
  int rank = 0;
  int size = 1;
  int node_rank = 0;
  int local_rank = 0;
  std::int64_t epoch = 1;
  std::int64_t attempt = 0;
  bool operator==(const RecorderIdentity&) const = default;
};

enum class CallState : std::uint8_t { entered, moving, done, failed };

// A call as it is entered.
struct CallRecord {
  std::uint8_t op = 0;  // A name given by Recorder::name_op.
  DataType type = DataType::u8;
  ReduceOp reduction = ReduceOp::sum;
  std::uint64_t sequence = 0;  // 0 for a message.
  std::uint64_t count = 0;
  std::int32_t root = 0;
  std::int32_t tag = 0;
};

class RecorderChannel;

// New memory for one rank, sealed against growing and shrinking, which names its rank
// but has no owner yet. Errors: resource_exhausted and the like from the kernel.
Result<UniqueFd> make_recorder_memory(const RecorderIdentity& identity);
// Notes in it which process the launcher started for that rank.
void note_launched_process(int fd, std::int64_t pid);

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  // Takes over the memory behind `inherited_fd` (which stays the caller's) unless it is -1,
  // of another version or owned by a World that lives; else makes its own. With kPrivate no
  // descriptor is opened, and nobody but this process reads it.
  static constexpr int kPrivate = -2;
  static std::shared_ptr<Recorder> open(const RecorderIdentity& identity, int inherited_fd);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Whether someone else (a shim) holds this memory too.
  bool is_shared() const { return shared_; }
  int fd() const { return fd_.get(); }  // -1: the memory is only the process's.

  void name_op(std::size_t op, std::string_view name);
  void name_algorithm(std::size_t algorithm, std::string_view name);
  // A ring and counters for one communicator. `members` are world ranks; `transports` is
  // for people ("shm+tcp"). Never null: with all channels taken its memory is its own.
  std::shared_ptr<RecorderChannel> open_channel(std::uint64_t context, int own_rank, const std::vector<int>& members,
                                                std::string_view transports);
  // The first one counts: true for it.
  bool record_failure(const Status& status, int culprit, std::uint64_t context);
  // Counts it in the metric trireme_failures_total, by its code.
  void count_failure(const Status& status);
  // The rank leaves in order.
  void leave();

  // A counter or gauge of the whole rank, made at its first mention and never removed.
  // `labels` as Prometheus writes them: code="peer_dead". nullptr when there are too many.
  std::atomic<std::uint64_t>* metric(std::string_view name, std::string_view labels, bool is_gauge = false);

 private:
  friend class RecorderChannel;
  explicit Recorder(RecorderIdentity identity) : identity_(std::move(identity)) {}
  bool adopt(int inherited_fd);
  bool claim();
  void make_own();
  void make_private();
  void describe_owner();
  std::size_t transport_index(std::string_view transports);
  recorder_layout::Channel* map_channel(std::size_t index);
  void give_back(RecorderChannel& channel);
  void fold(const recorder_layout::Channel& channel);
  bool is_owner() const;

  const RecorderIdentity identity_;
  UniqueFd fd_;
  bool shared_ = false;
  std::int64_t pid_ = 0;  // A forked child must not write.
  recorder_layout::Header* header_ = nullptr;
  bool header_on_heap_ = false;

  std::mutex mutex_;                  // Guards what follows and all changes of owner.
  std::deque<std::size_t> released_;  // Channels to be used again, oldest first.
};

class RecorderChannel {
 public:
  ~RecorderChannel();
  RecorderChannel(const RecorderChannel&) = delete;
  RecorderChannel& operator=(const RecorderChannel&) = delete;

  // Returns the call's index, to be given to the other methods. An index whose place in
  // the ring has been taken by a later call is silently ignored there.
  std::uint64_t enter(const CallRecord& call, std::uint64_t ticks);
  void start(std::uint64_t index, std::uint8_t algorithm, std::uint64_t ticks);
  void end(std::uint64_t index, bool ok, std::uint64_t ticks);
  // World rank, or -1 when it moves again.
  void wait_for(std::uint64_t index, int world_rank);

 private:
  friend class Recorder;
  RecorderChannel(std::shared_ptr<Recorder> recorder, recorder_layout::Channel* channel, std::size_t index);
  recorder_layout::Call* find(std::uint64_t index, std::uint64_t& head);
  void count(const recorder_layout::Call& call, std::uint64_t head, bool ok, std::uint64_t ticks);
  recorder_layout::Row& row(std::uint8_t op, std::uint8_t algorithm);

  const std::shared_ptr<Recorder> recorder_;
  recorder_layout::Channel* const channel_;
  const std::size_t index_;  // SIZE_MAX: memory of its own.
  std::uint64_t next_ = 0;
  std::array<std::array<std::uint8_t, recorder_layout::kAlgorithms>, recorder_layout::kOps> row_of_{};  // Row + 1.
  std::size_t rows_used_ = 0;
};

}  // namespace trireme
