#include "runtime/transport/api/doorbell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace trireme {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4,
              "the futex word is shared between processes");

// Without FUTEX_PRIVATE_FLAG: sleepers and ringers are different processes.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, timeout, nullptr, 0);
}

void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps at most until the deadline. True when the deadline has passed.
bool sleep_once(DoorbellWord& word, std::uint32_t seen, Deadline deadline) {
  timespec timeout{};
  if (!deadline.is_never()) {
    const std::uint64_t now_ns = system_clock().now_ns();
    if (now_ns >= deadline.at_ns()) return true;
    const std::uint64_t left_ns = deadline.at_ns() - now_ns;
    timeout.tv_sec = static_cast<time_t>(left_ns / 1'000'000'000);
    timeout.tv_nsec = static_cast<long>(left_ns % 1'000'000'000);
  }
  futex(&word.value, FUTEX_WAIT, seen, deadline.is_never() ? nullptr : &timeout);
  return false;
}

}  // namespace

WaitPolicy WaitPolicy::for_host(int ranks, int cores) {
  // A rank that spins while another one waits for its core delays what it waits for, so
  // ranks spin only when each has a core, and for about as long as one futex sleep and
  // wake would cost: then spinning at most doubles the cost of a wait that ends asleep.
  if (ranks <= cores) return {.spin_iterations = 500, .yield_iterations = 20};
  return {.spin_iterations = 0, .yield_iterations = 50};
}

bool Patience::pause() {
  if (attempts_ >= policy_.spin_iterations + policy_.yield_iterations) return false;
  if (attempts_++ < policy_.spin_iterations) {
    cpu_relax();
  } else {
    sched_yield();
  }
  return true;
}

bool Doorbell::wait(std::uint32_t seen, Deadline deadline) {
  for (Patience patience(policy_); patience.pause();) {
    if (value() != seen) return true;
  }
  return sleep(seen, deadline);
}

bool Doorbell::sleep(std::uint32_t seen, Deadline deadline) {
  // The ringer stores the value, then loads sleepers; we store sleepers, then load the
  // value (here and once more in the kernel). All four are sequentially consistent, so
  // one of us sees the other.
  word_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool changed = word_->value.load(std::memory_order_seq_cst) != seen;
  while (!changed && !sleep_once(*word_, seen, deadline)) {
    changed = word_->value.load(std::memory_order_seq_cst) != seen;
  }
  word_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return changed || value() != seen;
}

void Doorbell::ring(DoorbellWord& word) {
  word.value.fetch_add(1, std::memory_order_seq_cst);
  if (word.sleepers.load(std::memory_order_seq_cst) == 0) return;
  futex(&word.value, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace trireme
