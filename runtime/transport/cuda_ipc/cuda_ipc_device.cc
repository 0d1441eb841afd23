#include "runtime/transport/cuda_ipc/cuda_ipc_device.h"

#include <sched.h>

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr int kStreams = 4;
constexpr std::uint64_t kLastCallsMs = 1'000;

bool device_files_are_hidden() {
  const auto gpus = list_directory("/proc/driver/nvidia/gpus");
  const auto control = file_info("/dev/nvidiactl");
  return gpus.is_ok() && !gpus->empty() && control.is_ok() && !control->exists;
}

}  // namespace

Status explain_no_cuda_device(const Status& error, bool hidden) {
  if (!hidden) return unavailable(error.message());
  return unavailable(error.message() +
                     "; the host has GPUs but this container hides /dev/nvidia*: start it with access to them");
}

Result<std::string> cuda_device_uuid(const CudaIpcDriver& driver, CUdevice device) {
  CUuuid uuid{};
  TRIREME_RETURN_IF_ERROR(driver.check(driver.device_get_uuid(&uuid, device), "cuDeviceGetUuid"));
  return std::string(uuid.bytes, sizeof uuid.bytes);
}

Result<std::string> cuda_device_pci_address(const CudaIpcDriver& driver, CUdevice device) {
  std::array<char, 64> text{};
  TRIREME_RETURN_IF_ERROR(driver.check(driver.device_get_pci_bus_id(text.data(), static_cast<int>(text.size()), device),
                                       "cuDeviceGetPCIBusId"));
  std::string address(text.data());
  std::transform(address.begin(), address.end(), address.begin(),
                 [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  return address;
}

bool process_uses_cuda(const CudaIpcDriver& driver) {
  int count = 0;
  if (driver.init(0) != CUDA_SUCCESS || driver.device_get_count(&count) != CUDA_SUCCESS) return false;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    unsigned flags = 0;
    int active = 0;
    if (driver.device_get(&device, ordinal) == CUDA_SUCCESS &&
        driver.primary_context_get_state(device, &flags, &active) == CUDA_SUCCESS && active != 0) {
      return true;
    }
  }
  CUcontext current = nullptr;
  return driver.context_get_current(&current) == CUDA_SUCCESS && current != nullptr;
}

void CUDA_CB CudaIpcDevice::ring_bell(void* pointer) {
  Bell& bell = *static_cast<Bell*>(pointer);
  bell.ring();
  --bell.calls_open;
}

CudaIpcDevice::CudaIpcDevice(const CudaIpcDriver& driver, std::function<void()> ring) : driver_(driver) {
  bell_->ring = std::move(ring);
}

Result<std::shared_ptr<CudaIpcDevice>> CudaIpcDevice::open(const CudaIpcDriver& driver, int local_rank,
                                                           std::function<void()> ring) {
  std::shared_ptr<CudaIpcDevice> device(new CudaIpcDevice(driver, std::move(ring)));
  TRIREME_RETURN_IF_ERROR(device->choose(local_rank));
  TRIREME_RETURN_IF_ERROR(device->start());
  return device;
}

Status CudaIpcDevice::choose(int local_rank) {
  if (const Status status = driver_.check(driver_.init(0), "cuInit"); !status.is_ok()) {
    return explain_no_cuda_device(status, device_files_are_hidden());
  }
  int count = 0;
  TRIREME_RETURN_IF_ERROR(driver_.check(driver_.device_get_count(&count), "cuDeviceGetCount"));
  if (count == 0) return unavailable("no GPU is visible (see CUDA_VISIBLE_DEVICES)");
  ordinal_ = local_rank % count;
  CUcontext current = nullptr;
  CUdevice of_current = 0;
  if (driver_.context_get_current(&current) == CUDA_SUCCESS && current != nullptr &&
      driver_.context_get_device(&of_current) == CUDA_SUCCESS) {
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUdevice device = 0;
      if (driver_.device_get(&device, ordinal) == CUDA_SUCCESS && device == of_current) ordinal_ = ordinal;
    }
  }
  return driver_.check(driver_.device_get(&device_, ordinal_), "cuDeviceGet");
}

Status CudaIpcDevice::start() {
  TRIREME_ASSIGN_OR_RETURN(uuid_, cuda_device_uuid(driver_, device_));
  TRIREME_ASSIGN_OR_RETURN(pci_address_, cuda_device_pci_address(driver_, device_));
  TRIREME_RETURN_IF_ERROR(driver_.check(driver_.primary_context_retain(&context_, device_),
                                        fmt::format("making a context on GPU {} ({})", ordinal_, pci_address_)));
  const CudaIpcScope scope(driver_, context_);
  for (int i = 0; i < kStreams; ++i) {
    CUstream stream = nullptr;
    TRIREME_RETURN_IF_ERROR(driver_.check(driver_.stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    streams_.push_back(stream);
  }
  return Status::ok();
}

// At the end of a process the driver may be gone already: what it says is of no use.
CudaIpcDevice::~CudaIpcDevice() {
  if (context_ == nullptr) return;
  for (Abandoned& copy : abandoned_) {
    // Freeing pinned memory of a GPU that hangs would hang, too.
    if (state(copy.event) == CudaIpcCopyState::under_way) continue;
    events_.push_back(copy.event);
    if (copy.slot != nullptr) slots_.push_back(copy.slot);
  }
  const auto deadline = Deadline::after_ms(kLastCallsMs);
  while (!failed_ && bell_->calls_open > 0 && !deadline.expired()) sched_yield();
  if (!failed_ && bell_->calls_open > 0) static_cast<void>(bell_.release());  // Somebody may yet call it.
  {
    const CudaIpcScope scope(driver_, context_);
    for (CUevent event : events_) driver_.event_destroy(event);
    for (CUstream stream : streams_) driver_.stream_destroy(stream);
    for (std::byte* slot : slots_) driver_.mem_free_host(slot);
  }
  driver_.primary_context_release(device_);
}

double CudaIpcDevice::memory_bytes_per_second() const {
  int kilohertz = 0;
  int bits = 0;
  if (driver_.device_get_attribute(&kilohertz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device_) != CUDA_SUCCESS ||
      driver_.device_get_attribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device_) != CUDA_SUCCESS) {
    return 0;
  }
  return 2.0 * kilohertz * 1e3 * bits / 8;  // Two transfers a clock.
}

std::vector<CudaIpcDevice::Peer> CudaIpcDevice::reachable_peers() const {
  std::vector<Peer> peers;
  int count = 0;
  if (driver_.device_get_count(&count) != CUDA_SUCCESS) return peers;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice other = 0;
    int possible = 0;
    if (ordinal == ordinal_ || driver_.device_get(&other, ordinal) != CUDA_SUCCESS ||
        driver_.device_can_access_peer(&possible, device_, other) != CUDA_SUCCESS || possible == 0) {
      continue;
    }
    const auto uuid = cuda_device_uuid(driver_, other);
    const auto address = cuda_device_pci_address(driver_, other);
    if (uuid.is_ok() && address.is_ok()) peers.push_back({*uuid, *address});
  }
  return peers;
}

// cuPointerGetAttributes leaves zeros for pointers that are not CUDA's.
bool CudaIpcDevice::is_device_memory(const void* pointer) const {
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  unsigned type = 0;
  unsigned managed = 0;
  void* values[] = {&type, &managed};
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
  CUresult result = driver_.pointer_get_attributes(2, attributes, values, address);
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    const CudaIpcScope scope(driver_, context_);
    result = driver_.pointer_get_attributes(2, attributes, values, address);
  }
  return result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && managed == 0;
}

template <typename Value>
bool CudaIpcDevice::query(CUpointer_attribute attribute, const void* pointer, Value& value) const {
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
  void* values[] = {&value};
  return driver_.pointer_get_attributes(1, &attribute, values, address) == CUDA_SUCCESS;
}

std::optional<CudaIpcAllocation> CudaIpcDevice::allocation(const void* pointer) const {
  if (!is_device_memory(pointer)) return std::nullopt;
  const CudaIpcScope scope(driver_, context_);
  CudaIpcAllocation found;
  CUdeviceptr base = 0;
  if (driver_.mem_get_address_range(&base, &found.bytes, reinterpret_cast<std::uintptr_t>(pointer)) != CUDA_SUCCESS) {
    return found;  // Known to be a GPU's, and no more: to be staged.
  }
  found.base = base;
  unsigned long long id = 0;
  if (query(CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer, id)) found.id = id;
  if (!query(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer, found.device)) found.device = -1;
  int legacy = 0;
  if (query(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer, legacy)) found.has_legacy_handle = legacy != 0;
  unsigned long long types = 0;
  if (query(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, pointer, types)) {
    found.has_descriptor = (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  }
  return found;
}

Result<CUevent> CudaIpcDevice::copy(void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const CudaIpcScope scope(driver_, context_);
  CUevent event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
  } else {
    TRIREME_RETURN_IF_ERROR(driver_.check(driver_.event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  }
  CUstream stream = streams_[next_stream_++ % streams_.size()];
  Status status = driver_.check(
      driver_.memcpy_async(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from), bytes, stream),
      "cuMemcpyAsync");
  if (status.is_ok()) status = driver_.check(driver_.event_record(event, stream), "cuEventRecord");
  if (!status.is_ok()) {
    events_.push_back(event);
    return status;
  }
  ++copies_open_;
  ++bell_->calls_open;
  // Without it the copy is only noticed later: nothing is lost.
  if (driver_.launch_host_func(stream, ring_bell, bell_.get()) != CUDA_SUCCESS) --bell_->calls_open;
  return event;
}

CudaIpcCopyState CudaIpcDevice::state(CUevent event) const {
  const CudaIpcScope scope(driver_, context_);
  const CUresult result = driver_.event_query(event);
  if (result == CUDA_SUCCESS) return CudaIpcCopyState::done;
  if (result == CUDA_ERROR_NOT_READY) return CudaIpcCopyState::under_way;
  failed_ = true;
  return CudaIpcCopyState::failed;
}

void CudaIpcDevice::release(CUevent event) {
  --copies_open_;
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

void CudaIpcDevice::abandon(CUevent event, std::byte* slot, std::shared_ptr<void> memory) {
  --copies_open_;
  const std::lock_guard lock(mutex_);
  abandoned_.push_back({event, slot, std::move(memory)});
}

Status CudaIpcDevice::settle(CUevent event, Deadline deadline) const {
  for (;;) {
    const CudaIpcCopyState now = state(event);
    if (now == CudaIpcCopyState::done) return Status::ok();
    if (now == CudaIpcCopyState::failed) {
      const CudaIpcScope scope(driver_, context_);
      return driver_.check(driver_.event_query(event), fmt::format("a copy by GPU {} failed", pci_address_));
    }
    if (deadline.expired()) {
      return deadline_exceeded(fmt::format("a copy by GPU {} does not end: see dmesg for Xid errors", pci_address_));
    }
    sched_yield();
  }
}

Result<std::byte*> CudaIpcDevice::take_slot() {
  const std::lock_guard lock(mutex_);
  if (!slots_.empty()) {
    std::byte* slot = slots_.back();
    slots_.pop_back();
    return slot;
  }
  const CudaIpcScope scope(driver_, context_);
  void* memory = nullptr;
  TRIREME_RETURN_IF_ERROR(driver_.check(driver_.mem_host_alloc(&memory, kSlotBytes, CU_MEMHOSTALLOC_PORTABLE),
                                        "pinning memory to stage in"));
  return static_cast<std::byte*>(memory);
}

void CudaIpcDevice::give_slot(std::byte* slot) {
  const std::lock_guard lock(mutex_);
  slots_.push_back(slot);
}

}  // namespace trireme
