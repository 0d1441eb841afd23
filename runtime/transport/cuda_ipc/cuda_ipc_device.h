// CudaIpcDevice: the GPU of one rank: its context, the streams its copies run on, and
// pinned memory to stage in.
//
// Copies are enqueued round robin on streams of their own, several at once, and polled by
// their events; nothing here waits for the GPU but settle(), which has a deadline. When a
// copy ends the rank's doorbell rings.
// Thread safety: all methods.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

#include "runtime/transport/cuda_ipc/cuda_ipc_driver.h"

namespace trireme {

// Makes `context` the calling thread's for as long as this lives.
class CudaIpcScope {
 public:
  CudaIpcScope(const CudaIpcDriver& driver, CUcontext context)
      : driver_(driver), pushed_(driver.context_push(context) == CUDA_SUCCESS) {}
  ~CudaIpcScope() {
    CUcontext ours = nullptr;
    if (pushed_) driver_.context_pop(&ours);
  }
  CudaIpcScope(const CudaIpcScope&) = delete;
  CudaIpcScope& operator=(const CudaIpcScope&) = delete;

 private:
  const CudaIpcDriver& driver_;
  bool pushed_;
};

// An allocation on a GPU.
struct CudaIpcAllocation {
  std::uint64_t id = 0;  // Never used again in this process, also not for the same addresses; 0: unknown.
  std::uint64_t base = 0;
  std::size_t bytes = 0;
  int device = -1;                 // Its ordinal.
  bool has_legacy_handle = false;  // cudaMalloc and the like.
  bool has_descriptor = false;     // cuMemCreate with a handle type of POSIX descriptors.
};

enum class CudaIpcCopyState { under_way, done, failed };

class CudaIpcDevice {
 public:
  static constexpr std::size_t kSlotBytes = 512 * 1024;

  // The calling thread's current GPU, else GPU `local_rank` modulo their number; `ring` is
  // called, on a thread of the driver's, whenever a copy has ended.
  // Errors: unavailable and what the driver says.
  static Result<std::shared_ptr<CudaIpcDevice>> open(const CudaIpcDriver& driver, int local_rank,
                                                     std::function<void()> ring);
  // REQUIRES: no copy is under way but abandoned ones.
  ~CudaIpcDevice();
  CudaIpcDevice(const CudaIpcDevice&) = delete;
  CudaIpcDevice& operator=(const CudaIpcDevice&) = delete;

  const CudaIpcDriver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  int ordinal() const { return ordinal_; }
  const std::string& uuid() const { return uuid_; }                // 16 bytes.
  const std::string& pci_address() const { return pci_address_; }  // "0000:3b:00.0"
  // Reading or writing, as clock and width of the memory say; 0 when the driver does not.
  double memory_bytes_per_second() const;
  // Of the other visible GPUs, those whose memory this one can address.
  struct Peer {
    std::string uuid;
    std::string pci_address;
  };
  std::vector<Peer> reachable_peers() const;

  // Whether `pointer` is memory that only GPUs may touch (managed and pinned memory are not).
  bool is_device_memory(const void* pointer) const;
  // nullopt when it is not, or no longer; base 0 when the driver tells no more of it.
  std::optional<CudaIpcAllocation> allocation(const void* pointer) const;

  // Enqueues a copy; either side may be pinned host memory. Release the event when the
  // copy is done or failed. Errors: what the driver says.
  Result<CUevent> copy(void* to, const void* from, std::size_t bytes);
  CudaIpcCopyState state(CUevent event) const;
  void release(CUevent event);
  // Polls until the copy has ended. Errors: deadline_exceeded; io_error when it failed.
  Status settle(CUevent event, Deadline deadline) const;
  // For a copy that does not end: what it uses stays until the device goes, or for ever.
  void abandon(CUevent event, std::byte* slot, std::shared_ptr<void> memory);
  int copies_open() const { return copies_open_.load(std::memory_order_relaxed); }  // Not released.

  // kSlotBytes of pinned host memory, from what was given back if there is any.
  // Errors: resource_exhausted.
  Result<std::byte*> take_slot();
  void give_slot(std::byte* slot);

 private:
  // What the driver's thread calls; it may come later than the copy's end is seen.
  struct Bell {
    std::function<void()> ring;
    std::atomic<int> calls_open{0};
  };
  static void CUDA_CB ring_bell(void* bell);
  CudaIpcDevice(const CudaIpcDriver& driver, std::function<void()> ring);
  Status choose(int local_rank);
  Status start();
  template <typename Value>
  bool query(CUpointer_attribute attribute, const void* pointer, Value& value) const;

  const CudaIpcDriver& driver_;
  std::unique_ptr<Bell> bell_ = std::make_unique<Bell>();
  mutable std::atomic<bool> failed_{false};  // Then the driver calls nothing back.
  int ordinal_ = 0;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string uuid_;
  std::string pci_address_;
  std::atomic<int> copies_open_{0};
  std::mutex mutex_;
  std::vector<CUstream> streams_;
  std::size_t next_stream_ = 0;
  std::vector<CUevent> events_;  // Free ones.
  std::vector<std::byte*> slots_;
  struct Abandoned {
    CUevent event = nullptr;
    std::byte* slot = nullptr;
    std::shared_ptr<void> memory;
  };
  std::vector<Abandoned> abandoned_;
};

// Whether this process has a context on any GPU: it computes on one.
bool process_uses_cuda(const CudaIpcDriver& driver);
// Why cuInit found no device, in words that help: `hidden` when the machine has GPUs whose
// device files this container lacks.
Status explain_no_cuda_device(const Status& error, bool hidden);
// Of a CUDA device as the driver numbers it: 16 bytes.
Result<std::string> cuda_device_uuid(const CudaIpcDriver& driver, CUdevice device);
// As the kernel writes it: "0000:3b:00.0".
Result<std::string> cuda_device_pci_address(const CudaIpcDriver& driver, CUdevice device);

}  // namespace trireme
