// ThreadPool: fork-join parallelism over a fixed number of threads, ours rather than
// OpenMP's, so that sanitizers see it and thread counts are what was asked for.
//
// `run(tasks, body)` calls body(0) ... body(tasks - 1), spread over the calling thread
// and `threads - 1` workers, and returns when all are done. Which thread runs which
// task is not specified; work whose result must not depend on that writes to places
// chosen by the task index. Workers spin briefly between runs, then sleep.
// Thread safety: one run at a time per pool (a second caller waits); body may run
// concurrently with itself. Nested run() on the same pool executes inline.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace trireme {

class ThreadPool {
 public:
  // REQUIRES: threads >= 1. One thread means that run() executes inline.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // A reference to a callable: no allocation, the callable outlives the call.
  template <typename Body>
  void run(std::size_t tasks, const Body& body) {
    run_erased(tasks, &body, [](const void* context, std::size_t task) { (*static_cast<const Body*>(context))(task); });
  }

  // Splits [0, count) into at most `threads()` contiguous ranges of at least `grain`
  // elements and calls body(begin, end) for each.
  template <typename Body>
  void for_range(std::size_t count, std::size_t grain, const Body& body) {
    if (count == 0) return;
    const std::size_t pieces_max = grain == 0 ? count : (count + grain - 1) / grain;
    const std::size_t pieces =
        pieces_max < static_cast<std::size_t>(threads()) ? pieces_max : static_cast<std::size_t>(threads());
    run(pieces, [&](std::size_t piece) { body(count * piece / pieces, count * (piece + 1) / pieces); });
  }

 private:
  void run_erased(std::size_t tasks, const void* context, void (*call)(const void*, std::size_t));
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A process-wide pool of one thread: for callers that want no parallelism.
ThreadPool& inline_pool();

}  // namespace trireme
