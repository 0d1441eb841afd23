#include <trireme/memory/arena.h>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <trireme/base/units.h>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/system.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace trireme {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;

// Makes every page present now. The advice is one call for all pages and reports a lack
// of memory; kernels before 5.14 do not know it, and there each page is written once.
int touch(std::byte* memory, std::size_t bytes) {
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  while (::madvise(memory, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    for (std::size_t page = 0; page < bytes; page += kPage) {
      static_cast<volatile std::byte*>(memory)[page] = std::byte{0};
    }
    return 0;
  }
  return 0;
}

}  // namespace

Result<Arena> Arena::create(std::string name, std::size_t bytes) {
  const std::size_t mapped = std::max((bytes + kPage - 1) / kPage * kPage, kPage);
  const std::uint64_t available = available_memory_bytes(mapped);
  const std::string what = "arena '" + name + "' of " + std::to_string(bytes) + " bytes (" + format_bytes(bytes) + ")";
  if (mapped < bytes || mapped > available) {
    return resource_exhausted(what + ": the machine has " + std::to_string(available) + " bytes (" +
                              format_bytes(available) + ") available; use smaller sizes or fewer ranks here");
  }
  const int fault = inject_fault("memory.map");
  void* memory =
      fault != 0 ? MAP_FAILED : ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_status(fault != 0 ? fault : errno, what);
  if (const int error_number = touch(static_cast<std::byte*>(memory), mapped); error_number != 0) {
    ::munmap(memory, mapped);
    return errno_status(error_number, what + ": touch its pages");
  }
  Arena arena = over(std::move(name), memory, bytes);
  arena.owned_ = true;
  return arena;
}

Arena Arena::over(std::string name, void* memory, std::size_t bytes) {
  Arena arena;
  arena.name_ = std::move(name);
  arena.base_ = static_cast<std::byte*>(memory);
  arena.capacity_ = bytes;
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : name_(std::move(other.name_)),
      base_(std::exchange(other.base_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      used_(std::exchange(other.used_, 0)),
      high_water_(std::exchange(other.high_water_, 0)),
      owned_(std::exchange(other.owned_, false)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  Arena taken(std::move(other));
  std::swap(name_, taken.name_);
  std::swap(base_, taken.base_);
  std::swap(capacity_, taken.capacity_);
  std::swap(used_, taken.used_);
  std::swap(high_water_, taken.high_water_);
  std::swap(owned_, taken.owned_);
  return *this;
}

Arena::~Arena() {
  if (owned_) ::munmap(base_, std::max((capacity_ + kPage - 1) / kPage * kPage, kPage));
}

Result<void*> Arena::allocate(std::size_t bytes) {
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  const std::size_t begin = ((base + used_ + kAlignment - 1) & ~(kAlignment - 1)) - base;
  if (begin > capacity_ || bytes > capacity_ - begin) {
    return resource_exhausted("arena '" + name_ + "' of " + std::to_string(capacity_) + " bytes has " +
                              std::to_string(begin > capacity_ ? 0 : capacity_ - begin) + " left, and " +
                              std::to_string(bytes) + " were asked for: create it larger");
  }
  used_ = begin + bytes;
  high_water_ = std::max(high_water_, used_);
  return static_cast<void*>(base_ + begin);
}

void Arena::release(std::size_t mark) {
  TRIREME_CHECK(mark <= used_, "an arena is released to a mark above what is used");
  used_ = mark;
}

}  // namespace trireme
