// Device memory and pinned memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/cuda_stand_in/stand_in.h"

namespace trireme::stand_in {

Memory::Memory(int descriptor, std::size_t size, int owner) : fd(descriptor), bytes(size), gpu(owner) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  view = mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

Memory::~Memory() {
  if (view != nullptr) munmap(view, bytes);
  close(fd);
}

std::pair<const std::uintptr_t, Allocation>* AddressSpace::find(std::uintptr_t address) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  --after;
  return address - after->first < after->second.memory->bytes ? &*after : nullptr;
}

bool AddressSpace::is_pinned(std::uintptr_t address, std::size_t bytes) const {
  auto after = pinned.upper_bound(address);
  if (after == pinned.begin()) return false;
  --after;
  return address - after->first + bytes <= after->second;
}

AddressSpace& address_space() {
  static AddressSpace& one = *new AddressSpace;
  return one;
}

int make_descriptor(std::size_t bytes, unsigned long long id) {
  const int fd = memfd_create(("cuda-stand-in-" + std::to_string(id)).c_str(), MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

std::uintptr_t place(std::uintptr_t address, const Memory& memory) {
  const int fixed = address != 0 ? MAP_FIXED : 0;
  void* placed = mmap(reinterpret_cast<void*>(address), memory.bytes, PROT_NONE, MAP_SHARED | fixed, memory.fd, 0);
  return placed == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(placed);
}

void unplace(std::uintptr_t address, std::size_t bytes) {
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

}  // namespace trireme::stand_in

using namespace trireme::stand_in;

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (current_gpu() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const unsigned long long id = space.next_id++;
  const int fd = make_descriptor(bytes, id);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  auto memory = std::make_shared<Memory>(fd, bytes, current_gpu());
  std::uintptr_t address = 0;
  if (const auto free_range = space.freed.find(bytes); free_range != space.freed.end()) {
    address = free_range->second;
    space.freed.erase(free_range);
  }
  address = place(address, *memory);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation& allocation = space.allocations[address];
  allocation = {std::move(memory), id, Allocation::Kind::plain, false, true};
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const auto found = space.allocations.find(pointer);
  if (found == space.allocations.end() || found->second.kind != Allocation::Kind::plain) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::size_t bytes = found->second.memory->bytes;
  space.allocations.erase(found);
  unplace(pointer, bytes);
  space.freed.emplace(bytes, pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  if (current_gpu() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*pointer == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  space.pinned[reinterpret_cast<std::uintptr_t>(*pointer)] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* pointer) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  if (space.pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  if (current_gpu() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const auto* found = space.find(pointer);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *base = found->first;
  *bytes = found->second.memory->bytes;
  return CUDA_SUCCESS;
}

// As the driver: zeros for what is not its memory.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  AddressSpace& space = address_space();
  const std::lock_guard lock(space.mutex);
  const auto* found = space.find(pointer);
  const Allocation* allocation = found != nullptr ? &found->second : nullptr;
  const bool pinned = space.is_pinned(pointer, 1);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(data[i]) = allocation != nullptr ? CU_MEMORYTYPE_DEVICE
                                           : pinned              ? CU_MEMORYTYPE_HOST
                                                                 : 0;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(data[i]) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *static_cast<unsigned long long*>(data[i]) = allocation != nullptr ? allocation->id : 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(data[i]) = allocation != nullptr ? allocation->memory->gpu : 0;
        break;
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *static_cast<bool*>(data[i]) = allocation != nullptr && allocation->kind == Allocation::Kind::plain;
        break;
      case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *static_cast<unsigned long long*>(data[i]) =
            allocation != nullptr && allocation->shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}
