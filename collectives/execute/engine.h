// Engine: what a created communicator and its splits share: the world, the fabric, the
// knowledge that something failed, and one progress thread.
//
// The progress thread starts with the first asynchronous operation. It advances those
// communicators that have pending work and no caller waiting on them; it sleeps while
// there are none.
// Thread safety: all methods.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>
#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>

#include "collectives/execute/activity.h"
#include "collectives/select/selector.h"
#include "runtime/telemetry/api/recorder.h"
#include "runtime/transport/api/fabric.h"

namespace trireme {

// What the progress thread drives.
class Drivable {
 public:
  virtual ~Drivable() = default;
  // Pending work that no caller drives.
  virtual bool wants_driving() const = 0;
  // Advances without waiting. Returns true when anything moved.
  virtual bool drive() = 0;
  // The driver is about to sleep: peers ring it from now on. Advances once more; returns
  // true when anything moved.
  virtual bool prepare_sleep() = 0;
  // Nothing moved: looks after deadlines. Returns when to look again.
  virtual Deadline look_after() = 0;
};

class Engine {
 public:
  // Collective over the world.
  static Result<std::shared_ptr<Engine>> create(std::shared_ptr<World> world, const CommunicatorOptions& options);
  ~Engine();

  World& world() { return *world_; }
  const std::shared_ptr<World>& shared_world() const { return world_; }
  // Null when the world has one rank.
  Fabric* fabric() { return fabric_.get(); }
  std::int64_t timeout_ms() const { return timeout_ms_; }
  // Floating-point sums do not depend on their order.
  bool reproducible() const { return reproducible_; }
  // False only to measure what watching over calls costs (TRIREME_UNGUARDED): no flight
  // recorder, no comparison of calls, no deadlines.
  bool is_guarded() const { return guarded_; }
  const ForcedAlgorithms& forced() const { return forced_; }
  // Rank 0's table of measured times, for members of one host; null when there is none.
  std::shared_ptr<const TuningTable> tuning(bool one_host) const { return one_host ? tuning_ : nullptr; }
  // Agreed figures for members of one host, or of several.
  const plan::Network& network(bool one_host) const { return one_host ? inside_ : across_; }
  // All members map each other's memory. Equal on all ranks.
  bool share_memory(const std::vector<int>& members) const;
  std::uint64_t first_context() const { return first_context_; }
  const std::vector<std::string>& names() const { return names_; }  // Of all world ranks.

  // Grows whenever a failure becomes known.
  std::uint64_t failures() const { return failures_.load(std::memory_order_acquire); }
  // Wakes every thread that waits for one of our communicators.
  void ring() {
    if (fabric_) fabric_->doorbell().ring();
  }

  // A communicator comes and goes. remove() returns when the progress thread has let go.
  void add(Drivable* drivable, std::shared_ptr<ActivityRecord> record);
  void remove(Drivable* drivable, const std::shared_ptr<ActivityRecord>& record);
  // Where the communicator's calls are recorded.
  std::shared_ptr<RecorderChannel> record_communicator(std::uint64_t context, int own_rank,
                                                       const std::vector<int>& members);
  // There is work that nobody drives: starts or wakes the progress thread.
  void wake_progress();
  // The same for what a caller leaves behind that has waited for something else: it may wait
  // again at once, so the progress thread takes over a little later, if it has not.
  void hand_over();

 private:
  explicit Engine(std::shared_ptr<World> world) : world_(std::move(world)) {}
  Status configure(const CommunicatorOptions& options);
  Status agree(std::int64_t ordinal, const std::string& forced);
  void use_tuning(std::uint64_t hash, const std::string& text, const std::string& own);
  void watch();
  void name_recorded();
  std::string activity() const;
  void start_progress();
  bool wait_for_work();
  void run();
  bool any_wants_driving() const;
  bool drive_all(bool look_after, Deadline& next);

  std::shared_ptr<World> world_;
  std::unique_ptr<Fabric> fabric_;
  std::int64_t timeout_ms_ = 0;
  bool reproducible_ = false;
  bool guarded_ = true;
  ForcedAlgorithms forced_;
  std::shared_ptr<const TuningTable> tuning_;
  plan::Network inside_;
  plan::Network across_;
  std::uint64_t first_context_ = 0;
  std::vector<std::string> names_;
  std::vector<std::vector<int>> sharing_;  // By rank, whose memory it can map.
  std::atomic<std::uint64_t> failures_{0};

  mutable std::mutex records_mutex_;
  std::vector<std::shared_ptr<ActivityRecord>> records_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Drivable*> drivables_;
  Drivable* in_use_ = nullptr;  // By the progress thread, outside the lock.
  bool stopping_ = false;
  std::atomic<bool> handing_over_{false};
  std::thread progress_;
  std::shared_ptr<void> failure_subscription_;
  std::shared_ptr<void> activity_subscription_;
};

}  // namespace trireme
