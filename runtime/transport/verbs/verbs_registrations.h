// Registrations of memory that is not ours, with all devices in use: registering pins
// pages and costs as much as sending some hundred kilobytes, so it is kept for the next time.
//
// What is kept is never trusted blindly. Host memory is kept only while a MemoryMonitor
// watches it, and dropped the moment it is unmapped; where it cannot be watched a
// registration ends with its last user (a page can have one watcher: of ranks that are
// threads of one process, the first to send it keeps it). GPU memory is kept under the driver's id of its
// allocation, which a later allocation at the same address does not have.
//
// GPU memory is registered as a dma-buf, else by its address (which a peer-memory module
// of the kernel may know); if both fail the caller has to stage it through the host.
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/verbs/device_memory.h"
#include "runtime/transport/verbs/memory_monitor.h"
#include "runtime/transport/verbs/verbs_device.h"

namespace trireme {

// In use as long as somebody holds it.
class VerbsRegistration {
 public:
  VerbsRegistration(std::uintptr_t begin, std::uintptr_t end, std::uint64_t allocation)
      : begin_(begin), end_(end), allocation_(allocation) {}
  ~VerbsRegistration();
  VerbsRegistration(const VerbsRegistration&) = delete;
  VerbsRegistration& operator=(const VerbsRegistration&) = delete;

  void add(std::shared_ptr<VerbsDevice> device, ibv_mr* region) { regions_.emplace_back(std::move(device), region); }
  // REQUIRES: the device is one of those given to the VerbsRegistrations.
  std::uint32_t local_key(const VerbsDevice& device) const;
  bool holds(std::uintptr_t begin, std::uintptr_t end) const { return begin_ <= begin && end <= end_; }
  bool meets(std::uintptr_t begin, std::uintptr_t end) const { return begin_ < end && begin < end_; }
  std::uint64_t allocation() const { return allocation_; }  // 0: host memory.
  std::size_t bytes() const { return end_ - begin_; }

 private:
  std::vector<std::pair<std::shared_ptr<VerbsDevice>, ibv_mr*>> regions_;
  std::uintptr_t begin_;
  std::uintptr_t end_;
  std::uint64_t allocation_;
};

class VerbsRegistrations {
 public:
  // Keeps at most `most_bytes`, the latest used. `driver` may be null.
  VerbsRegistrations(std::vector<std::shared_ptr<VerbsDevice>> devices, const CudaDriver* driver,
                     std::size_t most_bytes);
  ~VerbsRegistrations();

  // For reading by the device. Errors: resource_exhausted, unsupported, what the device says.
  Result<std::shared_ptr<VerbsRegistration>> get(const void* memory, std::size_t bytes);
  const CudaDriver* driver() const { return driver_; }
  // Whether host memory is kept; if not, why.
  const Status& watching() const { return watching_; }

 private:
  using Kept = std::list<std::shared_ptr<VerbsRegistration>>;

  std::shared_ptr<VerbsRegistration> find(std::uintptr_t begin, std::uintptr_t end, std::uint64_t allocation);
  Result<std::shared_ptr<VerbsRegistration>> make(std::uintptr_t begin, std::uintptr_t end,
                                                  const std::optional<DeviceAllocation>& allocation);
  Result<std::shared_ptr<VerbsRegistration>> make_on_gpu(const DeviceAllocation& allocation) const;
  Result<ibv_mr*> register_gpu_memory(VerbsDevice& device, const DeviceAllocation& allocation,
                                      const Result<DeviceBuffer>& buffer) const;
  std::uint64_t generation();
  // Unless memory has been unmapped since `generation`, which may have been this.
  void keep(const std::shared_ptr<VerbsRegistration>& registration, std::uint64_t generation);
  void drop_meeting(std::uintptr_t begin, std::uintptr_t end);
  std::unique_lock<std::mutex> lock();

  std::vector<std::shared_ptr<VerbsDevice>> devices_;
  const CudaDriver* driver_;
  std::size_t most_bytes_;
  Status watching_;
  std::mutex mutex_;  // Where there is no monitor; otherwise its lock guards what follows.
  Kept kept_;         // The latest used first.
  Kept dropped_;      // To be destroyed where memory may be freed.
  std::size_t kept_bytes_ = 0;
  std::uint64_t generation_ = 0;            // Counts what was unmapped.
  std::unique_ptr<MemoryMonitor> monitor_;  // Last: its thread uses the rest.
};

}  // namespace trireme
