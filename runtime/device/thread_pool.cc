// One run is a descriptor (context, call, number of tasks) and one 64-bit word, the
// ticket: the run's number in the upper half, the tasks nobody has claimed yet in the
// lower. A thread claims a task by compare-and-swap of the whole word, so a claim can
// only succeed in the run whose descriptor was read before it; a worker that comes late,
// or sleeps through whole runs, finds another number or nothing left. The caller works
// too and waits only for claimed tasks to finish, never for workers that claimed none:
// on a machine with fewer cores than threads a run needs no context switch.
//
// Sleeping follows Dekker: a sleeper announces itself, then looks at the ticket once
// more; the caller publishes the ticket, then looks for sleepers. All four accesses are
// sequentially consistent, so one of the two sees the other.
#include <trireme/device/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <trireme/base/check.h>
#include <trireme/platform/clock.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/system.h"

namespace trireme {
namespace {

constexpr std::uint64_t kSpinNs = 30'000;  // About twice what waking a sleeper costs.

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spinning pays only when every thread of every rank of this host has its own core.
bool may_spin(int threads) {
  const auto ranks = environment_integer("TRIREME_LOCAL_SIZE", 1, 1, 1 << 20);
  const std::int64_t sharing = ranks.is_ok() ? ranks.value() : 1;
  return static_cast<std::int64_t>(threads) * sharing <= usable_cpu_count();
}

std::uint32_t unclaimed(std::uint64_t ticket) {
  return static_cast<std::uint32_t>(ticket);
}

// The pools whose tasks this thread is executing, innermost first. A worker's chain goes
// on with that of the thread that called run(), so a nested run is recognised whichever
// thread it lands on.
struct Frame {
  const void* pool;
  const Frame* outer;
};
thread_local const Frame* frames = nullptr;

bool is_inside(const void* pool) {
  for (const Frame* frame = frames; frame != nullptr; frame = frame->outer) {
    if (frame->pool == pool) return true;
  }
  return false;
}

}  // namespace

struct ThreadPool::Impl {
  using Call = void (*)(const void*, std::size_t);

  explicit Impl(int thread_count) : threads(thread_count), spin(may_spin(thread_count)) {
    workers.reserve(static_cast<std::size_t>(threads - 1));
    for (int worker = 1; worker < threads; ++worker) workers.emplace_back([this] { serve(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(sleep_mutex);
      stopping.store(true);
    }
    work_ready.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void run(std::uint32_t task_count, const void* task_context, Call task_call) {
    const std::lock_guard one_run(run_mutex);
    context.store(task_context, std::memory_order_relaxed);
    call.store(task_call, std::memory_order_relaxed);
    tasks.store(task_count, std::memory_order_relaxed);
    caller_frames.store(frames, std::memory_order_relaxed);
    finished.store(0, std::memory_order_relaxed);
    const std::uint64_t number = (ticket.load(std::memory_order_relaxed) >> 32) + 1;
    ticket.store(number << 32 | task_count);
    wake_workers(task_count - 1);
    work();
    wait_until_finished(task_count);
  }

  void wake_workers(std::uint32_t wanted) {
    const std::uint32_t asleep = sleepers.load();
    if (asleep == 0) return;
    const std::lock_guard lock(sleep_mutex);
    if (wanted >= asleep) {
      work_ready.notify_all();
    } else {
      for (std::uint32_t i = 0; i < wanted; ++i) work_ready.notify_one();
    }
  }

  // Claims and executes tasks until none is left. Returns whether there was one.
  bool work() {
    bool any = false;
    const Frame* const own_frames = frames;
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    while (unclaimed(seen) != 0) {
      const void* const task_context = context.load(std::memory_order_relaxed);
      const Call task_call = call.load(std::memory_order_relaxed);
      const std::uint32_t task_count = tasks.load(std::memory_order_relaxed);
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      const Frame frame{this, caller_frames.load(std::memory_order_relaxed)};
      frames = &frame;
      task_call(task_context, task_count - unclaimed(seen));
      frames = own_frames;
      any = true;
      if (finished.fetch_add(1) + 1 == task_count && caller_sleeps.load()) {
        const std::lock_guard lock(sleep_mutex);
        run_finished.notify_one();
      }
      seen = ticket.load(std::memory_order_acquire);
    }
    return any;
  }

  void wait_until_finished(std::uint32_t task_count) {
    const auto done = [&] { return finished.load() == task_count; };
    if (spin_until(done)) return;
    std::unique_lock lock(sleep_mutex);
    caller_sleeps.store(true);
    run_finished.wait(lock, done);
    caller_sleeps.store(false);
  }

  // True when `done` became true within the time that spinning is worth.
  template <typename Done>
  bool spin_until(const Done& done) const {
    if (done()) return true;
    if (!spin) return false;
    const std::uint64_t start = tsc_now();
    while (true) {
      for (int i = 0; i < 32; ++i) {
        if (done()) return true;
        relax();
      }
      if (tsc_to_ns(tsc_now() - start) > kSpinNs) return false;
    }
  }

  void serve() {
    const auto awake = [this] { return unclaimed(ticket.load()) != 0 || stopping.load(); };
    while (!stopping.load()) {
      if (work() || spin_until(awake)) continue;
      std::unique_lock lock(sleep_mutex);
      sleepers.fetch_add(1);
      work_ready.wait(lock, awake);
      sleepers.fetch_sub(1);
    }
  }

  const int threads;
  const bool spin;
  std::mutex run_mutex;  // Held by the caller of a run.

  alignas(64) std::atomic<std::uint64_t> ticket{0};
  std::atomic<const void*> context{nullptr};
  std::atomic<Call> call{nullptr};
  std::atomic<std::uint32_t> tasks{0};
  std::atomic<const Frame*> caller_frames{nullptr};
  alignas(64) std::atomic<std::uint32_t> finished{0};
  std::atomic<bool> caller_sleeps{false};

  alignas(64) std::atomic<std::uint32_t> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex sleep_mutex;
  std::condition_variable work_ready;
  std::condition_variable run_finished;
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads) {
  TRIREME_CHECK(threads >= 1, "a thread pool needs at least one thread");
  tsc_to_ns(0);  // Calibrates now rather than in the first run.
  impl_ = std::make_unique<Impl>(threads);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const {
  return impl_->threads;
}

void ThreadPool::run_erased(std::size_t tasks, const void* context, void (*call)(const void*, std::size_t)) {
  if (impl_->threads == 1 || tasks <= 1 || is_inside(impl_.get())) {
    for (std::size_t task = 0; task < tasks; ++task) call(context, task);
    return;
  }
  TRIREME_CHECK(tasks <= UINT32_MAX, "a run has more than 2^32 - 1 tasks: give each more to do");
  impl_->run(static_cast<std::uint32_t>(tasks), context, call);
}

ThreadPool& inline_pool() {
  static ThreadPool pool(1);
  return pool;
}

}  // namespace trireme
