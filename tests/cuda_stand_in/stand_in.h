// A stand-in for the CUDA driver: GPUs whose memory is memory of the host, for code that
// calls the driver's functions. What a program may not do with a GPU fails here, too:
// device pointers cannot be touched by the host, copies run later on threads of their
// streams, host memory in copies must be pinned, mapped memory needs access rights, a
// handle cannot be opened by the process that made it.
//
// TRIREME_STAND_IN_GPUS is how many there are (2); TRIREME_STAND_IN_FAULTS lists faults:
// no_peer (no peer access), no_handles (memory cannot be shared), no_opening (handles
// cannot be opened), wrong_bytes (copies out of others' memory bring other bytes),
// copies_fail (every copy ends in an error), copies_hang (no copy is seen to end).
// Thread safety: all functions.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace trireme::stand_in {

bool has_fault(std::string_view name);
int gpu_count();
// Of the context that the calling thread has; -1 without one.
int current_gpu();

// Memory with a descriptor: mapped without any right where the device pointer points to,
// and readable and writable where copies work.
struct Memory {
  int fd = -1;
  std::size_t bytes = 0;
  std::byte* view = nullptr;
  int gpu = 0;
  Memory(int descriptor, std::size_t size, int owner);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

struct Allocation {
  std::shared_ptr<Memory> memory;
  unsigned long long id = 0;
  enum class Kind { plain, mapped, opened } kind = Kind::plain;
  bool shareable = false;   // A descriptor may be made of it.
  bool accessible = false;  // cuMemSetAccess was called, where it has to be.
};

// What device and pinned addresses mean.
struct AddressSpace {
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::multimap<std::size_t, std::uintptr_t> freed;  // By size: the next allocation of it lies there.
  unsigned long long next_id = 1;

  std::pair<const std::uintptr_t, Allocation>* find(std::uintptr_t address);
  bool is_pinned(std::uintptr_t address, std::size_t bytes) const;
};
AddressSpace& address_space();

// A memfd whose name holds `id`; -1 when there are no more.
int make_descriptor(std::size_t bytes, unsigned long long id);
// Makes `address` mean the memory; 0: an address is chosen. Returns it, 0 on failure.
std::uintptr_t place(std::uintptr_t address, const Memory& memory);
// Keeps the addresses, with nothing behind them.
void unplace(std::uintptr_t address, std::size_t bytes);

}  // namespace trireme::stand_in
