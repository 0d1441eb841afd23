// SharedHeap: memory other processes of this host can map.
//
// A memfd whose size is reserved up front and sealed, so that a peer that maps it can
// never be hit by SIGBUS; it has no name in any file system (nothing in /dev/shm) and
// vanishes with its last user. Its descriptor travels over Unix sockets. Within one
// process a heap is mapped once and shared by all ranks that are threads.
// Thread safety: allocate and deallocate from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <trireme/base/status.h>

namespace trireme {

class SharedHeap {
 public:
  // Creates, reserves, seals and maps. Errors: resource_exhausted saying how much was
  // needed and how much memory is available.
  static Result<std::shared_ptr<SharedHeap>> create(std::string name, std::size_t bytes);
  // Maps a heap received from a peer and closes `fd`. The seals and the size are checked
  // first. Errors: data_loss when they are not as promised.
  static Result<std::shared_ptr<SharedHeap>> attach(int fd, std::size_t bytes);
  ~SharedHeap();
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  // 64-byte aligned, zeroed at first use only. Errors: resource_exhausted.
  // REQUIRES: this heap was created here, not attached.
  Result<void*> allocate(std::size_t bytes);
  void deallocate(void* memory);

  std::byte* base() const;
  std::size_t bytes() const;
  int fd() const;  // -1 after close_descriptor(), and of an attached heap.
  // Gives the descriptor back once no more peers need to receive it; the mapping stays.
  void close_descriptor();
  // The offset of `pointer`, when [pointer, pointer + length) lies in this heap.
  std::optional<std::size_t> offset_of(const void* pointer, std::size_t length) const;

 private:
  struct Impl;
  explicit SharedHeap(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
