#include "runtime/device/cpu/cpu_device.h"

#include <cstdlib>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/system.h"

namespace trireme {
namespace {

constexpr std::size_t kAlignment = 64;

class CpuDevice final : public Device {
 public:
  DeviceId id() const override { return {DeviceKind::cpu, 0}; }
  std::string description() const override { return "cpu, " + std::to_string(usable_cpu_count()) + " usable cores"; }

  Result<void*> allocate(std::size_t bytes, MemoryKind) override {
    // aligned_alloc wants a multiple of the alignment, and a request for nothing a place.
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::uint64_t available = available_memory_bytes(rounded);
    void* memory = nullptr;
    if (rounded >= bytes && rounded <= available && inject_fault("memory.allocate") == 0) {
      memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
    }
    if (memory == nullptr) {
      return resource_exhausted("cpu memory: asked for " + std::to_string(bytes) + " bytes, " +
                                std::to_string(available) + " are available; use smaller sizes or fewer ranks here");
    }
    return memory;
  }
  void deallocate(void* memory, MemoryKind) override { std::free(memory); }
  Result<std::unique_ptr<Stream>> make_stream() override { return make_cpu_stream(); }

  Status enable_peer_access(Device& peer) override {
    if (peer.id().kind == DeviceKind::cpu) return Status::ok();
    return unavailable("the cpu cannot address memory of " + peer.id().to_string() +
                       "; copy it through a stream of that device");
  }
};

}  // namespace

std::shared_ptr<Device> make_cpu_device() {
  return std::make_shared<CpuDevice>();
}

}  // namespace trireme
