// Streams, events and copies: every stream is a thread that works later, in order.
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>

#include "tests/cuda_stand_in/stand_in.h"

namespace trireme::stand_in {
namespace {

enum class Progress { idle, under_way, done, failed };

struct EventState {
  std::atomic<Progress> progress{Progress::idle};
};

class Stream {
 public:
  Stream() : thread_([this] { work(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void enqueue(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  std::atomic<bool> failed{false};

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (unsigned count = 0;; ++count) {
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (count % 5 == 0) usleep(200);  // So that what is asked for at once is not there at once.
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

Stream* stream_of(CUstream handle) {
  return reinterpret_cast<Stream*>(handle);
}
// Events outlive their handles while a stream has yet to reach them.
std::shared_ptr<EventState>* event_of(CUevent handle) {
  return reinterpret_cast<std::shared_ptr<EventState>*>(handle);
}

// One side of a copy: where its bytes are, and what keeps them.
struct Side {
  std::byte* bytes = nullptr;
  std::shared_ptr<Memory> memory;
  bool foreign = false;
};

// False for what a copy may not touch.
bool resolve(std::uintptr_t address, std::size_t bytes, Side& side) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  if (const auto* found = space.find(address)) {
    const Allocation& allocation = found->second;
    const std::size_t offset = address - found->first;
    if (!allocation.accessible || offset + bytes > allocation.memory->bytes) return false;
    side = {allocation.memory->view + offset, allocation.memory, allocation.kind != Allocation::Kind::plain};
    return true;
  }
  side.bytes = reinterpret_cast<std::byte*>(address);
  return space.is_pinned(address, bytes);
}

}  // namespace
}  // namespace trireme::stand_in

using namespace trireme::stand_in;

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  if (current_gpu() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *stream = reinterpret_cast<CUstream>(new Stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  delete stream_of(stream);
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(new std::shared_ptr<EventState>(std::make_shared<EventState>()));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  delete event_of(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  const std::shared_ptr<EventState> state = *event_of(event);
  state->progress = Progress::under_way;
  Stream* const on = stream_of(stream);
  on->enqueue([state, on] { state->progress = on->failed ? Progress::failed : Progress::done; });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  if (has_fault("copies_hang")) return CUDA_ERROR_NOT_READY;
  switch ((*event_of(event))->progress.load()) {
    case Progress::under_way:
      return CUDA_ERROR_NOT_READY;
    case Progress::failed:
      return CUDA_ERROR_LAUNCH_FAILED;
    default:
      return CUDA_SUCCESS;
  }
}

// As the driver, calls nothing back on a stream that has failed.
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  Stream* const on = stream_of(stream);
  on->enqueue([function, data, on] {
    if (!on->failed) function(data);
  });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (current_gpu() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  Side target;
  Side source;
  if (!resolve(to, bytes, target) || !resolve(from, bytes, source)) return CUDA_ERROR_INVALID_VALUE;
  Stream* const on = stream_of(stream);
  if (has_fault("copies_fail")) on->failed = true;
  on->enqueue([target, source, bytes, on] {
    if (on->failed) return;
    std::memcpy(target.bytes, source.bytes, bytes);
    if (source.foreign && has_fault("wrong_bytes")) target.bytes[bytes / 2] ^= std::byte{1};
  });
  return CUDA_SUCCESS;
}
