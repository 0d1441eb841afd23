#include <trireme/memory/shared_heap.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include <trireme/base/units.h>

#include "runtime/memory/block_allocator.h"
#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/system.h"
#include "runtime/platform/api/unique_fd.h"

namespace trireme {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The heaps this process maps, by inode: ranks that are threads share one mapping. The
// lock also covers the making of an entry, so two ranks cannot both map.
using InodeKey = std::pair<dev_t, ino_t>;
std::mutex registry_mutex;
std::map<InodeKey, std::weak_ptr<SharedHeap>>& registry() {
  static auto& entries = *new std::map<InodeKey, std::weak_ptr<SharedHeap>>;  // Outlives static heaps.
  return entries;
}

Result<std::byte*> map_shared(int fd, std::size_t bytes, const std::string& what) {
  const int fault = inject_fault("memory.map");
  void* memory = fault != 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return errno_status(fault != 0 ? fault : errno, what + ": map");
  return static_cast<std::byte*>(memory);
}

Status too_little_memory(const std::string& what, std::uint64_t available) {
  return resource_exhausted(what + ": " + std::to_string(available) + " bytes (" + format_bytes(available) +
                            ") are available; use smaller buffers or fewer ranks on this host");
}

}  // namespace

struct SharedHeap::Impl {
  std::string name;
  UniqueFd fd;
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  InodeKey key{};
  std::mutex mutex;                      // Guards the allocator.
  std::optional<BlockAllocator> blocks;  // Of a heap created here.

  ~Impl() {
    if (base != nullptr) ::munmap(base, bytes);
  }
};

Result<std::shared_ptr<SharedHeap>> SharedHeap::create(std::string name, std::size_t bytes) {
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  const std::string what =
      "shared heap '" + name + "' of " + std::to_string(bytes) + " bytes (" + format_bytes(bytes) + ")";
  if (bytes == 0) return invalid_argument(what + ": expected at least one byte");
  const std::uint64_t available = available_memory_bytes(rounded);
  if (rounded < bytes || rounded > available) return too_little_memory(what, available);

  auto impl = std::make_unique<Impl>();
  impl->fd = UniqueFd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!impl->fd.valid()) return errno_status(errno, what + ": create");
  // Takes the pages now: a later lack of memory would be a SIGBUS in the middle of work.
  const int fault = inject_fault("memory.reserve");
  if (fault != 0 || ::fallocate(impl->fd.get(), 0, 0, static_cast<off_t>(rounded)) != 0) {
    const int error_number = fault != 0 ? fault : errno;
    if (error_number == ENOSPC || error_number == ENOMEM) return too_little_memory(what, available);
    return errno_status(error_number, what + ": reserve its pages");
  }
  if (::fcntl(impl->fd.get(), F_ADD_SEALS, kSeals) != 0) return errno_status(errno, what + ": seal its size");
  TRIREME_ASSIGN_OR_RETURN(impl->base, map_shared(impl->fd.get(), rounded, what));
  impl->name = std::move(name);
  impl->bytes = rounded;
  impl->blocks.emplace(rounded);
  struct stat info {};
  if (::fstat(impl->fd.get(), &info) != 0) return errno_status(errno, what + ": look at it");
  impl->key = {info.st_dev, info.st_ino};

  const InodeKey key = impl->key;
  std::shared_ptr<SharedHeap> heap(new SharedHeap(std::move(impl)));
  const std::lock_guard lock(registry_mutex);
  registry()[key] = heap;
  return heap;
}

Result<std::shared_ptr<SharedHeap>> SharedHeap::attach(int fd, std::size_t bytes) {
  UniqueFd owned(fd);
  const std::string what = "a peer's shared heap of " + std::to_string(bytes) + " bytes";
  struct stat info {};
  if (::fstat(owned.get(), &info) != 0) return errno_status(errno, what + ": look at descriptor " + std::to_string(fd));
  const int seals = ::fcntl(owned.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return data_loss(what + ": its size is not sealed, so it could vanish under us; the peer is no Trireme rank");
  }
  if (bytes == 0 || static_cast<std::size_t>(info.st_size) != (bytes + kPage - 1) / kPage * kPage) {
    return data_loss(what + ": the descriptor received has " + std::to_string(info.st_size) + " bytes");
  }
  const InodeKey key{info.st_dev, info.st_ino};
  const std::lock_guard lock(registry_mutex);
  std::weak_ptr<SharedHeap>& entry = registry()[key];
  if (std::shared_ptr<SharedHeap> known = entry.lock()) return known;
  auto impl = std::make_unique<Impl>();
  impl->name = "attached";
  impl->key = key;
  impl->bytes = static_cast<std::size_t>(info.st_size);
  TRIREME_ASSIGN_OR_RETURN(impl->base, map_shared(owned.get(), impl->bytes, what));
  std::shared_ptr<SharedHeap> heap(new SharedHeap(std::move(impl)));
  entry = heap;
  return heap;
}

SharedHeap::SharedHeap(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SharedHeap::~SharedHeap() {
  const std::lock_guard lock(registry_mutex);
  const auto entry = registry().find(impl_->key);
  if (entry != registry().end() && entry->second.expired()) registry().erase(entry);
}

Result<void*> SharedHeap::allocate(std::size_t bytes) {
  TRIREME_CHECK(impl_->blocks.has_value(), "memory is allocated from a shared heap of another process");
  const std::lock_guard lock(impl_->mutex);
  const std::optional<std::size_t> offset = impl_->blocks->allocate(bytes);
  if (offset) return static_cast<void*>(impl_->base + *offset);
  return resource_exhausted("shared heap '" + impl_->name + "' of " + std::to_string(impl_->bytes) + " bytes has " +
                            std::to_string(impl_->blocks->free_bytes()) + " free, " +
                            std::to_string(impl_->blocks->largest_free_bytes()) + " of them together, and " +
                            std::to_string(bytes) + " were asked for");
}

void SharedHeap::deallocate(void* memory) {
  if (memory == nullptr) return;
  TRIREME_CHECK(impl_->blocks.has_value(), "memory is freed in a shared heap of another process");
  const std::lock_guard lock(impl_->mutex);
  impl_->blocks->deallocate(static_cast<std::size_t>(static_cast<std::byte*>(memory) - impl_->base));
}

std::byte* SharedHeap::base() const {
  return impl_->base;
}
std::size_t SharedHeap::bytes() const {
  return impl_->bytes;
}
int SharedHeap::fd() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->fd.get();
}
void SharedHeap::close_descriptor() {
  const std::lock_guard lock(impl_->mutex);
  impl_->fd.reset();
}

std::optional<std::size_t> SharedHeap::offset_of(const void* pointer, std::size_t length) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto begin = reinterpret_cast<std::uintptr_t>(impl_->base);
  if (address < begin || address - begin > impl_->bytes || length > impl_->bytes - (address - begin)) {
    return std::nullopt;
  }
  return address - begin;
}

}  // namespace trireme
