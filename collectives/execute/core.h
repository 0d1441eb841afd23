// Core: one communicator's machinery: its queue of collectives, its messages, its
// deadlines and its end.
//
// Collectives run one after the other in order of their calls; messages run beside them.
// Whoever waits drives; what nobody waits for, the engine's progress thread drives.
// After an error the core is broken: every pending and later operation ends with the
// same Status, which all members learn through the World.
// Thread safety: start, wait, poll from one thread at a time; abort and the Drivable
// methods from any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <trireme/base/status.h>

#include "collectives/execute/activity.h"
#include "collectives/execute/diagnose.h"
#include "collectives/execute/engine.h"
#include "collectives/execute/executor.h"
#include "collectives/execute/operation.h"
#include "collectives/execute/post_office.h"
#include "collectives/select/selector.h"

namespace trireme {

class Core final : public Drivable, private LinkTable {
 public:
  // `members`: world ranks in order of their rank here. `survivors`: they go on without
  // the others, whose failures do not concern them.
  Core(std::shared_ptr<Engine> engine, std::uint64_t context, std::vector<int> members, bool survivors = false);
  ~Core() override;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  std::uint64_t context() const { return context_; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  const Selector& selector() const { return selector_; }
  // `details` may be null.
  plan::Request request_of(const Call& call, const CallDetails* details) const;
  // Numbers the splits of this communicator, equally on all its ranks.
  std::uint64_t next_split() { return ++splits_; }
  std::uint64_t next_shrink() { return ++shrinks_; }
  bool survivors() const { return survivors_; }

  // Queues the operation; it stays until it is done. A collective gets its sequence here.
  void start(OperationState& operation);
  // Drives until it is done; returns its Status.
  Status wait(OperationState& operation);
  // Drives all of `cores` until `done` says so. REQUIRES: one engine, which has a fabric.
  static void drive_together(const std::vector<Core*>& cores, const std::function<bool()>& done);
  bool has_pending() const { return pending_.load() > 0; }
  // Moves what can be moved at once.
  void poll();
  Status status() const;
  void abort(const std::string& reason);
  // Drives what is pending to its end (or its deadline), then lets go of everything.
  void close();
  // Communicator's; allocate() waits for the other members.
  Result<void*> allocate(std::size_t bytes);
  Status deallocate(const void* memory);
  void* mapped(const void* memory, int rank) const;
  // What is pending is from now on also the progress thread's to drive.
  void leave_to_progress_thread();

  bool wants_driving() const override;
  bool drive() override;
  bool prepare_sleep() override;
  Deadline look_after() override;

 private:
  struct PlanKey {
    std::uint64_t kind_type_op_root;  // And how it combines.
    std::uint64_t count;              // Of uneven parts: a hash of the counts.
    bool operator==(const PlanKey&) const = default;
  };
  struct PlanKeyHash {
    std::size_t operator()(const PlanKey& key) const {
      return static_cast<std::size_t>((key.count * 0x9e3779b97f4a7c15u) ^
                                      (key.kind_type_op_root * 0xc2b2ae3d27d4eb4fu));
    }
  };

  Status await_memory(const std::vector<std::shared_ptr<PeerMemory>>& peers, std::size_t bytes);
  Result<std::vector<std::shared_ptr<PeerMemory>>> exchange_memory(std::uint64_t context, SharedHeap& heap,
                                                                   const void* memory);

  // All below with mutex_ held.
  Result<Link*> link(int peer) override;
  Result<Mailboxes*> mailboxes() override;
  const Windows& windows() const override { return windows_; }
  Result<PostOffice*> post_office(int peer);
  const CompiledPlan& compiled(const OperationState& operation);
  std::unique_ptr<CompiledPlan> compile(const Call& call, const plan::Request& request) const;
  void start_plan(OperationState& operation);
  bool may_use_windows(const OperationState& operation) const;
  void restart_without_windows(const OperationState& operation);
  bool advance();
  bool advance_collective();
  bool advance_messages();
  bool handle_mismatch(const CallMismatch& differs, const OperationState& operation);
  void complete_current();
  bool learn_failure();
  std::optional<Failure> known_failure() const;
  void break_with(const Status& status);
  void report(const Status& status, int culprit);
  void report_unopened(const Status& status, int culprit);
  void enqueue(OperationState& operation);
  void record(OperationState& operation);
  void refuse_waiting_for_oneself(OperationState& operation);
  void post_locally(OperationState& operation);
  const OperationState* head() const;  // The one that has stood still longest: its deadline counts.
  std::size_t count_pending() const;

  // Deadlines and inquiries; `lock` is released while other ranks are asked.
  Deadline look_after(std::unique_lock<std::mutex>& lock);
  void note_progress();
  std::uint64_t deadline_ns(const OperationState& operation, std::uint64_t now_ns) const;
  void publish_waiting(const OperationState& operation);
  void inquire(std::unique_lock<std::mutex>& lock, bool deadline_passed);
  Question question_of(const OperationState& operation) const;
  std::vector<int> waits_of(const OperationState& operation) const;
  void check_links();

  const std::shared_ptr<Engine> engine_;
  const std::uint64_t context_;
  const std::vector<int> members_;
  const bool survivors_;
  const int rank_;
  int ranks_per_host_ = 0;
  const bool shares_memory_;  // All members map each other's memory.
  Selector selector_;
  std::shared_ptr<ActivityRecord> record_;
  std::shared_ptr<RecorderChannel> recorder_;  // Null when we are alone: calls are copies.

  mutable std::mutex mutex_;
  std::atomic<int> driving_{0};          // Callers inside wait().
  std::atomic<std::size_t> pending_{0};  // Operations not done.
  std::uint64_t sequence_ = 0;
  std::uint64_t splits_ = 0;
  std::uint64_t shrinks_ = 0;
  OperationState* first_ = nullptr;  // Collectives in order; the first may be running.
  OperationState* last_ = nullptr;
  std::size_t queued_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<PostOffice>> offices_;
  std::vector<std::size_t> open_offices_;  // Peers that have one.
  std::vector<OperationState*> to_self_;   // Messages to ourselves that wait for their other half.
  std::unordered_map<PlanKey, std::unique_ptr<CompiledPlan>, PlanKeyHash> plans_;
  std::unique_ptr<Mailboxes> mailboxes_;  // Once a plan uses them.
  Windows windows_;
  std::uint64_t allocations_ = 0;
  Executor executor_;
  const CompiledPlan* current_plan_ = nullptr;  // The executor's, as it was started first.
  Status broken_;
  std::uint64_t failures_seen_ = 0;
  bool closed_ = false;

  // Waiting.
  std::uint64_t idle_since_ns_ = 0;  // 0: moving.
  std::uint64_t next_inquiry_ns_ = 0;
  std::uint64_t inquiry_interval_ns_ = 0;
  bool waiting_published_ = false;
  std::uint64_t waiting_record_ = 0;  // The recorded call that was published as waiting.
  std::uint64_t link_broken_since_ns_ = 0;
  Status suspicion_;  // A mismatch whose cause the other ranks know better.
  int suspect_ = -1;

  mutable std::mutex abort_mutex_;
  Status abort_status_;
  std::atomic<bool> aborted_{false};
};

}  // namespace trireme
