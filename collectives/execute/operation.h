// OperationState: one started call, from its submission to its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/collectives/reduction.h>
#include <trireme/platform/clock.h>

#include "collectives/execute/call.h"
#include "collectives/execute/staging.h"
#include "runtime/telemetry/api/recorder.h"

namespace trireme {

// What only some calls have.
struct CallDetails {
  std::vector<std::int64_t> counts;          // Of uneven parts; of all_to_all_v, what is sent.
  std::vector<std::int64_t> receive_counts;  // Of all_to_all_v.
  std::shared_ptr<const CustomReduction> custom;
  double factor = 1;  // Of a scaled sum.
  std::unique_ptr<Staging> staging;
};

struct OperationState {
  Call call;
  const void* input = nullptr;
  void* output = nullptr;
  std::unique_ptr<CallDetails> details;  // Null when the call has none.
  // tsc_now() when it was started, and then whenever somebody looked and bytes of it had
  // moved since the last look. Its deadline counts from here.
  std::uint64_t progress_ticks = 0;
  bool windows = false;                  // Its buffers may lie in windows, on all ranks alike.
  bool moved = false;                    // Bytes have moved since progress_ticks.
  RecorderChannel* recorder = nullptr;   // Told of its end; may be null.
  std::uint64_t record = 0;              // Its index there.
  OperationState* next = nullptr;        // In the communicator's queue.
  std::shared_ptr<OperationState> keep;  // An asynchronous operation keeps itself until it ends.

  bool done() const { return done_.load(std::memory_order_acquire); }
  // REQUIRES: done().
  const Status& status() const { return status_; }
  void complete(Status status) {
    status_ = std::move(status);
    if (recorder != nullptr) recorder->end(record, status_.is_ok(), tsc_now());
    const std::shared_ptr<OperationState> self = std::move(keep);
    done_.store(true, std::memory_order_release);
  }
  void begin_deadline() { note_progress(tsc_now()); }
  void note_progress(std::uint64_t ticks) {
    progress_ticks = ticks;
    moved = false;
  }
  // Makes a finished state fit for the next call.
  void recycle() {
    status_ = {};
    details.reset();
    next = nullptr;
    recorder = nullptr;
    done_.store(false, std::memory_order_relaxed);
  }

 private:
  Status status_;
  std::atomic<bool> done_{false};
};

}  // namespace trireme
