#include "runtime/transport/verbs/verbs_registrations.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <trireme/telemetry/log.h>

namespace trireme {

VerbsRegistration::~VerbsRegistration() {
  for (const auto& [device, region] : regions_) device->verbs().dereg_mr(region);
}

std::uint32_t VerbsRegistration::local_key(const VerbsDevice& device) const {
  for (const auto& [owner, region] : regions_) {
    if (owner.get() == &device) return region->lkey;
  }
  TRIREME_CHECK(false, "a registration that the device of a channel does not have");
  return 0;
}

VerbsRegistrations::VerbsRegistrations(std::vector<std::shared_ptr<VerbsDevice>> devices, const CudaDriver* driver,
                                       std::size_t most_bytes)
    : devices_(std::move(devices)), driver_(driver), most_bytes_(most_bytes) {
  auto monitor = MemoryMonitor::start([this](std::uintptr_t begin, std::uintptr_t end) { drop_meeting(begin, end); });
  if (monitor.is_ok()) {
    monitor_ = std::move(monitor).value();
  } else {
    watching_ = monitor.status();
    log_line(LogLevel::info, "transport",
             watching_.with_context("RDMA registrations of host memory are not kept").to_string());
  }
}

VerbsRegistrations::~VerbsRegistrations() = default;

std::unique_lock<std::mutex> VerbsRegistrations::lock() {
  return monitor_ ? monitor_->lock() : std::unique_lock(mutex_);
}

// On the monitor's thread, with the lock held: entries change lists, nothing is freed.
void VerbsRegistrations::drop_meeting(std::uintptr_t begin, std::uintptr_t end) {
  ++generation_;
  for (auto entry = kept_.begin(); entry != kept_.end();) {
    const auto next = std::next(entry);
    if ((*entry)->allocation() == 0 && (*entry)->meets(begin, end)) {
      kept_bytes_ -= (*entry)->bytes();
      dropped_.splice(dropped_.end(), kept_, entry);
    }
    entry = next;
  }
}

std::shared_ptr<VerbsRegistration> VerbsRegistrations::find(std::uintptr_t begin, std::uintptr_t end,
                                                            std::uint64_t allocation) {
  Kept dead;  // Destroyed after the lock is released.
  const auto held = lock();
  dead.swap(dropped_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& entry) {
    return entry->allocation() == allocation && entry->holds(begin, end);
  });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return *found;
}

std::uint64_t VerbsRegistrations::generation() {
  const auto held = lock();
  return generation_;
}

void VerbsRegistrations::keep(const std::shared_ptr<VerbsRegistration>& registration, std::uint64_t generation) {
  Kept one{registration};  // The node is made, and the dead are destroyed, without the lock.
  Kept dead;
  const auto held = lock();
  if (generation != generation_) return;
  kept_.splice(kept_.begin(), one);
  kept_bytes_ += registration->bytes();
  while (kept_bytes_ > most_bytes_ && kept_.size() > 1) {
    kept_bytes_ -= kept_.back()->bytes();
    dead.splice(dead.end(), kept_, std::prev(kept_.end()));
  }
}

Result<std::shared_ptr<VerbsRegistration>> VerbsRegistrations::get(const void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::optional<DeviceAllocation> allocation = device_allocation(driver_, memory);
  if (auto known = find(begin, begin + bytes, allocation ? allocation->id : 0)) return known;
  return make(begin, begin + bytes, allocation);
}

Result<std::shared_ptr<VerbsRegistration>> VerbsRegistrations::make(std::uintptr_t begin, std::uintptr_t end,
                                                                    const std::optional<DeviceAllocation>& allocation) {
  const std::uint64_t before = generation();
  if (allocation) {
    TRIREME_ASSIGN_OR_RETURN(auto registration, make_on_gpu(*allocation));
    keep(registration, before);
    return registration;
  }
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  begin = begin / page * page;
  end = (end + page - 1) / page * page;
  const bool watched = monitor_ && monitor_->watch(begin, end);
  auto registration = std::make_shared<VerbsRegistration>(begin, end, 0);
  for (const auto& device : devices_) {
    TRIREME_ASSIGN_OR_RETURN(ibv_mr * region, device->register_memory(reinterpret_cast<void*>(begin), end - begin));
    registration->add(device, region);
  }
  if (watched) keep(registration, before);
  return registration;
}

Result<std::shared_ptr<VerbsRegistration>> VerbsRegistrations::make_on_gpu(const DeviceAllocation& allocation) const {
  auto registration =
      std::make_shared<VerbsRegistration>(allocation.base, allocation.base + allocation.bytes, allocation.id);
  const Result<DeviceBuffer> buffer = export_device_memory(*driver_, allocation);
  for (const auto& device : devices_) {
    TRIREME_ASSIGN_OR_RETURN(ibv_mr * region, register_gpu_memory(*device, allocation, buffer));
    registration->add(device, region);
  }
  return registration;
}

Result<ibv_mr*> VerbsRegistrations::register_gpu_memory(VerbsDevice& device, const DeviceAllocation& allocation,
                                                        const Result<DeviceBuffer>& buffer) const {
  const VerbsLibrary& verbs = device.verbs();
  std::string why = "libibverbs has no ibv_reg_dmabuf_mr";
  if (verbs.reg_dmabuf_mr != nullptr && buffer.is_ok()) {
    ibv_mr* region = verbs.reg_dmabuf_mr(device.domain(), 0, buffer->bytes, buffer->first, buffer->fd.get(), 0);
    if (region != nullptr) return region;
    why = errno_status(errno, "ibv_reg_dmabuf_mr").message();
  } else if (verbs.reg_dmabuf_mr != nullptr) {
    why = buffer.status().message();
  }
  Result<ibv_mr*> region = device.register_memory(reinterpret_cast<void*>(allocation.base), allocation.bytes);
  if (region.is_ok()) return region;
  return unsupported(device.name() + " cannot reach GPU memory (" + why + "; by address: " + region.status().message() +
                     "): it is staged through the host. Load nvidia-peermem, or use a kernel and driver with dma-buf");
}

}  // namespace trireme
