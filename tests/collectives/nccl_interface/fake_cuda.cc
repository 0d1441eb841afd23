#include "tests/collectives/nccl_interface/fake_cuda.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace trireme::test {
namespace {

// Device memory: one memfd mapped twice, without any right where the program's pointer
// points to, and readable and writable where "kernels" and copies work.
struct Memory {
  std::size_t bytes = 0;
  std::byte* view = nullptr;
};

struct Device {
  std::mutex mutex;
  std::map<std::byte*, Memory> memories;
};

Device& device() {
  static Device& one = *new Device;
  return one;
}

std::atomic<bool> capturing{false};
std::atomic<int> current_device{0};

// The view of a device pointer; nullptr when it is none.
std::byte* view_of(const void* pointer) {
  auto* address = static_cast<std::byte*>(const_cast<void*>(pointer));
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  auto after = d.memories.upper_bound(address);
  if (after == d.memories.begin()) return nullptr;
  --after;
  const std::size_t offset = static_cast<std::size_t>(address - after->first);
  return offset < after->second.bytes ? after->second.view + offset : nullptr;
}

class Stream {
 public:
  explicit Stream(int delay_ms) : delay_ms_(delay_ms), thread_([this] { work(); }) {}
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
  void synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty(); });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = tasks_.front();  // Stays in the queue until it is done.
      lock.unlock();
      if (delay_ms_ > 0) usleep(static_cast<useconds_t>(delay_ms_) * 1000);
      task();
      lock.lock();
      tasks_.pop_front();
      changed_.notify_all();
    }
  }

  const int delay_ms_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

void* make_fake_stream(int delay_ms) {
  return new Stream(delay_ms);
}
void destroy_fake_stream(void* stream) {
  delete static_cast<Stream*>(stream);
}
void enqueue_fake_kernel(void* stream, std::function<void()> kernel) {
  static_cast<Stream*>(stream)->enqueue(std::move(kernel));
}
std::byte* fake_kernel_view(void* device_pointer) {
  return view_of(device_pointer);
}
void fake_synchronize(void* stream) {
  static_cast<Stream*>(stream)->synchronize();
}
void set_fake_capture(bool on) {
  capturing = on;
}

void* fake_device_malloc(std::size_t bytes) {
  const int fd = memfd_create("fake-device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* view = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void* address = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  close(fd);
  if (view == MAP_FAILED || address == MAP_FAILED) return nullptr;
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  d.memories[static_cast<std::byte*>(address)] = {bytes, static_cast<std::byte*>(view)};
  return address;
}

void fake_device_free(void* device_pointer) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  const auto found = d.memories.find(static_cast<std::byte*>(device_pointer));
  if (found == d.memories.end()) return;
  munmap(found->second.view, found->second.bytes);
  munmap(device_pointer, found->second.bytes);
  d.memories.erase(found);
}

}  // namespace trireme::test

// The functions that the library looks for, in the order of its list.
extern "C" {

int cudaGetDeviceCount(int* count) {
  *count = 4;
  return 0;
}
int cudaGetDevice(int* index) {
  *index = trireme::test::current_device;
  return 0;
}
int cudaSetDevice(int index) {
  trireme::test::current_device = index;
  return 0;
}
int cudaStreamSynchronize(void* stream) {
  if (stream != nullptr) trireme::test::fake_synchronize(stream);
  return 0;
}
int cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes, int, void* stream) {
  const auto copy = [=] {
    std::byte* to = trireme::test::view_of(destination);
    const std::byte* from = trireme::test::view_of(source);
    std::memcpy(to != nullptr ? to : destination, from != nullptr ? from : source, bytes);
  };
  if (stream == nullptr) {
    copy();
  } else {
    trireme::test::enqueue_fake_kernel(stream, copy);
  }
  return 0;
}
int cudaPointerGetAttributes(void* attributes, const void* pointer) {
  const int type = trireme::test::view_of(pointer) != nullptr ? 2 : 0;  // Device, or not known.
  std::memcpy(attributes, &type, sizeof type);
  return 0;
}
int cudaStreamIsCapturing(void*, int* status) {
  *status = trireme::test::capturing ? 1 : 0;
  return 0;
}
int cudaMalloc(void** pointer, std::size_t bytes) {
  *pointer = trireme::test::fake_device_malloc(bytes);
  return *pointer != nullptr ? 0 : 2;
}
int cudaFree(void* pointer) {
  trireme::test::fake_device_free(pointer);
  return 0;
}
const char* cudaGetErrorString(int) {
  return "a fake error";
}

}  // extern "C"
