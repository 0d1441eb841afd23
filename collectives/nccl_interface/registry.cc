#include "collectives/nccl_interface/registry.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include <fmt/core.h>

#include "collectives/nccl_interface/unique_id.h"
#include "runtime/platform/api/process.h"

namespace trireme::nccl {
namespace {

constexpr std::size_t kPage = 4096;  // NCCL_WIN_REQUIRED_ALIGNMENT
constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Registry {
  std::mutex mutex;
  std::int64_t pid = current_pid();
  std::unordered_map<const void*, std::shared_ptr<Comm>> comms;
  std::unordered_map<const void*, bool> memory;          // Whether it is the device's.
  std::unordered_map<const void*, std::size_t> buffers;  // Bytes, by handle.
};

// At exit: communicators that the program forgot leave in order, so that other ranks see a
// departure, not a death. A forked child leaves its parent's alone.
void leave_all();

// The C interface's handles mean the same in every thread of the process. Never destroyed:
// threads may outlive exit().
Registry& registry() {
  static Registry& all = []() -> Registry& {
    reap_stores();  // Whose own end at exit is thereby registered before, and comes after.
    (void)std::atexit(leave_all);
    return *new Registry;
  }();
  return all;
}

void leave_all() {
  Registry& all = registry();
  if (all.pid != current_pid()) return;
  std::unordered_map<const void*, std::shared_ptr<Comm>> comms;
  {
    const std::lock_guard lock(all.mutex);
    comms.swap(all.comms);
  }
  comms.clear();
  close_stores();
}

}  // namespace

::ncclComm* register_comm(const std::shared_ptr<Comm>& comm) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.comms.emplace(comm.get(), comm);
  return reinterpret_cast<::ncclComm*>(comm.get());
}

Outcome find_comm(const ::ncclComm* handle, std::shared_ptr<Comm>& comm) {
  if (handle == nullptr) return bad_argument("the communicator is NULL");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.comms.find(handle);
  if (found == all.comms.end()) {
    return bad_argument(
        fmt::format("there is no communicator {} (was it destroyed?)", static_cast<const void*>(handle)));
  }
  comm = found->second;
  return {};
}

Outcome release_comm(const ::ncclComm* handle, std::shared_ptr<Comm>& comm) {
  const Outcome found = find_comm(handle, comm);
  if (!found.is_ok()) return found;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.comms.erase(handle);
  return {};
}

Outcome allocate_memory(void** memory, std::size_t bytes) {
  if (memory == nullptr) return bad_argument("the address where the pointer shall be written is NULL");
  *memory = nullptr;
  Accelerator* device = accelerator();
  void* made = nullptr;
  if (device != nullptr) {
    const auto allocated = device->allocate(std::max<std::size_t>(bytes, 1));
    if (!allocated.is_ok()) return {Code::unhandled_cuda_error, allocated.status().to_string()};
    made = allocated.value();
  } else {
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
    const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    made = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
    if (made == nullptr) return {Code::system_error, fmt::format("{} bytes of host memory are not to be had", bytes)};
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.memory[made] = device != nullptr;
  *memory = made;
  return {};
}

Outcome free_memory(void* memory) {
  if (memory == nullptr) return {};
  Registry& all = registry();
  bool of_device = false;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.memory.find(memory);
    if (found == all.memory.end()) {
      return bad_argument(fmt::format("{} did not come from ncclMemAlloc, or was freed already", memory));
    }
    of_device = found->second;
    all.memory.erase(found);
  }
  if (!of_device) {
    std::free(memory);
    return {};
  }
  const Status freed = accelerator()->deallocate(memory);
  return freed.is_ok() ? Outcome() : Outcome(Code::unhandled_cuda_error, freed.to_string());
}

Outcome register_buffer(const void* buffer, std::size_t bytes, void** handle) {
  if (handle == nullptr) return bad_argument("the address where the handle shall be written is NULL");
  *handle = nullptr;
  if (buffer == nullptr || bytes == 0) return bad_argument("the buffer to register is NULL or empty");
  auto key = std::make_unique<char>();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.buffers.emplace(key.get(), bytes);
  *handle = key.release();
  return {};
}

Outcome release_buffer(const void* handle) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.buffers.erase(handle) == 0) return bad_argument("there is no registered buffer of this handle");
  delete static_cast<const char*>(handle);
  return {};
}

}  // namespace trireme::nccl
