// Doorbell: the one word a rank sleeps on.
//
// Peers in shared memory ring it directly; for sockets, peer death and abort this
// process's service threads ring it. A waiter reads value(), tries its work, and when
// nothing moved calls wait(value): it returns when the word has changed. Waiting spins
// briefly if the host's ranks fit its cores, then yields, then sleeps on a futex; ring()
// makes a system call only when somebody sleeps.
// Thread safety: all methods, across processes.
#pragma once

#include <atomic>
#include <cstdint>

#include <trireme/platform/clock.h>

namespace trireme {

// The word itself, in memory shared with the peers. Zero-initialised is ready to use.
struct DoorbellWord {
  alignas(64) std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
};

struct WaitPolicy {
  std::uint32_t spin_iterations = 0;   // Busy polls before yielding.
  std::uint32_t yield_iterations = 0;  // sched_yield calls before sleeping.
  // For `ranks` runnable ranks on `cores` usable cores.
  static WaitPolicy for_host(int ranks, int cores);
};

// The attempts of one waiter before it sleeps.
class Patience {
 public:
  explicit Patience(const WaitPolicy& policy) : policy_(policy) {}
  // Spins or yields once. False: it is time to sleep.
  bool pause();
  // Something moved.
  void renew() { attempts_ = 0; }

 private:
  const WaitPolicy policy_;
  std::uint32_t attempts_ = 0;
};

class Doorbell {
 public:
  // REQUIRES: the word outlives the object.
  Doorbell(DoorbellWord* word, WaitPolicy policy) : word_(word), policy_(policy) {}
  std::uint32_t value() const { return word_->value.load(std::memory_order_acquire); }
  const WaitPolicy& policy() const { return policy_; }
  // False when the deadline passed and the word still equals `seen`.
  bool wait(std::uint32_t seen, Deadline deadline);
  // As wait(), but sleeps at once: for who has spun and yielded over its own work.
  bool sleep(std::uint32_t seen, Deadline deadline);
  void ring() { ring(*word_); }
  static void ring(DoorbellWord& word);

 private:
  DoorbellWord* word_;
  WaitPolicy policy_;
};

}  // namespace trireme
