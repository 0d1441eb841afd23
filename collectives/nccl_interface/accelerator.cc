#include "collectives/nccl_interface/accelerator.h"

#include <atomic>
#include <mutex>

namespace trireme::nccl {

Accelerator* accelerator() {
  static std::atomic<Accelerator*> found{nullptr};  // Never destroyed: CUDA ends at exit on its own.
  static std::mutex mutex;
  if (Accelerator* known = found.load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(mutex);
  if (found.load(std::memory_order_relaxed) == nullptr) {
    std::unique_ptr<Accelerator> first = find_cuda_runtime();
    if (first == nullptr) first = find_cuda_driver();
    found.store(first.release(), std::memory_order_release);
  }
  return found.load(std::memory_order_relaxed);
}

}  // namespace trireme::nccl
