// Arena: memory taken once, touched once, handed out by moving a mark.
//
// On virtual machines the first touch of a fresh page can cost fifty times a copy of
// it, so the runtime takes what it needs at start-up and reuses it: a warm training
// step allocates nothing. allocate() moves the mark up; release(mark) moves it back;
// high_water_bytes() tells what a run really needed.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <trireme/base/status.h>

namespace trireme {

class Arena {
 public:
  // Reserves and touches `bytes`. `name` appears in errors and reports.
  // Errors: resource_exhausted with the bytes wanted and what the machine has.
  static Result<Arena> create(std::string name, std::size_t bytes);
  // An arena over memory owned by someone else (a SharedHeap, a device).
  static Arena over(std::string name, void* memory, std::size_t bytes);
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  // 64-byte aligned; contents unspecified.
  // Errors: resource_exhausted naming the arena, its size and the request.
  Result<void*> allocate(std::size_t bytes);
  template <typename T>
  Result<T*> allocate_array(std::size_t count) {
    Result<void*> memory = allocate(count * sizeof(T));
    if (!memory.is_ok()) return memory.status();
    return static_cast<T*>(memory.value());
  }

  std::size_t mark() const { return used_; }
  // Everything allocated after `mark` is free again. REQUIRES: mark <= mark().
  void release(std::size_t mark);
  std::size_t capacity_bytes() const { return capacity_; }
  std::size_t used_bytes() const { return used_; }
  std::size_t high_water_bytes() const { return high_water_; }
  const std::string& name() const { return name_; }

 private:
  Arena() = default;
  std::string name_;
  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t high_water_ = 0;
  bool owned_ = false;
};

}  // namespace trireme
