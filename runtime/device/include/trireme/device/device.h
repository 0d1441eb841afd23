// Device, Stream, Event: where memory lives and in which order work happens on it.
//
// A Device allocates memory and makes streams. A Stream is an ordered queue of work:
// what is enqueued later starts after what was enqueued earlier has finished. The CPU
// device is complete (its stream is a thread that drains a queue); the CUDA device
// exists when the build has CUDA and the machine a driver and a GPU.
// Thread safety: Device: any thread. Stream and Event: enqueue from one thread at a
// time; query and synchronize from any.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

enum class DeviceKind { cpu, cuda };

struct DeviceId {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const DeviceId&) const = default;
  std::string to_string() const;  // "cpu", "cuda:0"
};

class Event {
 public:
  virtual ~Event() = default;
  // True once everything enqueued before its recording has finished.
  virtual bool ready() const = 0;
  virtual Status synchronize() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual DeviceId device() const = 0;
  // Runs `work` on a host thread in stream order.
  virtual Status enqueue(std::function<void()> work) = 0;
  virtual Status copy(void* destination, const void* source, std::size_t bytes) = 0;
  virtual Status fill_zero(void* destination, std::size_t bytes) = 0;
  virtual Result<std::shared_ptr<Event>> record() = 0;
  virtual Status wait(std::shared_ptr<Event> event) = 0;
  virtual Status synchronize() = 0;
  // cudaStream_t for CUDA, nullptr for the CPU.
  virtual void* native_handle() const { return nullptr; }
};

enum class MemoryKind {
  device,       // The device's own memory.
  pinned_host,  // Host memory that the device copies from and to at full speed.
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceId id() const = 0;
  virtual std::string description() const = 0;
  // 64-byte aligned at least. Errors: resource_exhausted with asked and available bytes.
  virtual Result<void*> allocate(std::size_t bytes, MemoryKind kind) = 0;
  virtual void deallocate(void* memory, MemoryKind kind) = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  // Makes memory of `peer` addressable from this device's kernels and copies.
  // Errors: unavailable when the hardware has no path between the two.
  virtual Status enable_peer_access(Device& peer) = 0;
};

// All devices of this process: cpu first, then every CUDA GPU that is usable. Why there
// is no GPU (no driver, built without CUDA, none visible) is in `note`.
struct DeviceList {
  std::vector<std::shared_ptr<Device>> devices;
  std::string note;
};
const DeviceList& devices();
std::shared_ptr<Device> cpu_device();

}  // namespace trireme
