#include "runtime/transport/cuda_ipc/cuda_ipc_imports.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

namespace trireme {
namespace {

constexpr std::size_t kMostKept = 256;
constexpr std::uint64_t kConnectMs = 1'000;
constexpr std::uint64_t kAnswerMs = 10'000;
constexpr std::uint64_t kRestOfAnswerMs = 1'000;  // Its first byte is there.

Result<CUdeviceptr> map_handle(const CudaIpcDriver& driver, const CudaIpcRegion& region) {
  CUipcMemHandle handle{};
  std::memcpy(handle.reserved, region.handle.data(), sizeof handle.reserved);
  CUdeviceptr base = 0;
  TRIREME_RETURN_IF_ERROR(driver.check(driver.ipc_open_mem_handle(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                                       "cuIpcOpenMemHandle"));
  return base;
}

// Each step undoes the ones before it when it fails.
Result<CUdeviceptr> map_reserved(const CudaIpcDriver& driver, CUmemGenericAllocationHandle memory, std::size_t bytes,
                                 int ordinal) {
  CUdeviceptr base = 0;
  TRIREME_RETURN_IF_ERROR(driver.check(driver.mem_address_reserve(&base, bytes, 0, 0, 0), "cuMemAddressReserve"));
  Status status = driver.check(driver.mem_map(base, bytes, 0, memory, 0), "cuMemMap");
  if (status.is_ok()) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = ordinal;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    status = driver.check(driver.mem_set_access(base, bytes, &access, 1), "cuMemSetAccess");
    if (!status.is_ok()) driver.mem_unmap(base, bytes);
  }
  if (!status.is_ok()) {
    driver.mem_address_free(base, bytes);
    return status;
  }
  return base;
}

Result<CUdeviceptr> map_descriptor(const CudaIpcDriver& driver, int fd, std::size_t bytes, int ordinal) {
  CUmemGenericAllocationHandle memory = 0;
  TRIREME_RETURN_IF_ERROR(driver.check(
      driver.mem_import_from_shareable_handle(&memory, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle"));
  Result<CUdeviceptr> base = map_reserved(driver, memory, bytes, ordinal);
  driver.mem_release(memory);  // The mapping keeps it.
  return base;
}

}  // namespace

Result<std::shared_ptr<CudaIpcMapping>> CudaIpcMapping::open(std::shared_ptr<CudaIpcDevice> device,
                                                             const CudaIpcRegion& region) {
  CUdeviceptr base = region.base;
  if (region.access == CudaIpcAccess::handle) {
    const CudaIpcScope scope(device->driver(), device->context());
    TRIREME_ASSIGN_OR_RETURN(base, map_handle(device->driver(), region));
  }
  return std::shared_ptr<CudaIpcMapping>(new CudaIpcMapping(std::move(device), region.access, base, region.bytes));
}

Result<std::shared_ptr<CudaIpcMapping>> CudaIpcMapping::open(std::shared_ptr<CudaIpcDevice> device,
                                                             const CudaIpcRegion& region, const UniqueFd& descriptor) {
  const CudaIpcScope scope(device->driver(), device->context());
  TRIREME_ASSIGN_OR_RETURN(const CUdeviceptr base,
                           map_descriptor(device->driver(), descriptor.get(), region.bytes, device->ordinal()));
  return std::shared_ptr<CudaIpcMapping>(new CudaIpcMapping(std::move(device), region.access, base, region.bytes));
}

// The driver may be gone at the end of a process: what it says is of no use.
CudaIpcMapping::~CudaIpcMapping() {
  const CudaIpcDriver& driver = device_->driver();
  const CudaIpcScope scope(driver, device_->context());
  if (access_ == CudaIpcAccess::handle) driver.ipc_close_mem_handle(base_);
  if (access_ == CudaIpcAccess::descriptor) {
    driver.mem_unmap(base_, bytes_);
    driver.mem_address_free(base_, bytes_);
  }
}

// One question to a peer.
struct CudaIpcImports::Asking {
  Socket socket;
  Reactor::Token token = 0;
  Key key;
  CudaIpcRegion region;
};

Result<std::shared_ptr<CudaIpcMapping>> CudaIpcImports::get(int peer, const CudaIpcEndpoint& endpoint,
                                                            const CudaIpcRegion& region) {
  if (region.access == CudaIpcAccess::address) return CudaIpcMapping::open(device_, region);
  const Key key{peer, region.id};
  std::shared_ptr<CudaIpcMapping> dropped;  // Unmapped without the lock.
  std::unique_lock lock(mutex_);
  if (const auto known = entries_.find(key); known != entries_.end()) {
    known->second.used = ++clock_;
    if (!known->second.error.is_ok()) return known->second.error;
    return known->second.mapping;
  }
  if (entries_.size() >= kMostKept) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    dropped = std::move(oldest->second.mapping);
    entries_.erase(oldest);
  }
  Entry& entry = entries_[key];
  entry.used = ++clock_;
  if (region.access == CudaIpcAccess::descriptor) {
    const auto asking = entry.asking = std::make_shared<Asking>();
    lock.unlock();
    asking->key = key;
    asking->region = region;
    if (Status status = ask(asking, endpoint); !status.is_ok()) {
      forget(peer, region.id);
      return status;
    }
    return std::shared_ptr<CudaIpcMapping>();
  }
  Result<std::shared_ptr<CudaIpcMapping>> mapping = CudaIpcMapping::open(device_, region);
  if (mapping.is_ok()) {
    entry.mapping = *mapping;
  } else {
    entries_.erase(key);
  }
  return mapping;
}

Status CudaIpcImports::ask(const std::shared_ptr<Asking>& asking, const CudaIpcEndpoint& endpoint) {
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::parse(endpoint.address));
  TRIREME_ASSIGN_OR_RETURN(asking->socket, Socket::connect(address, Deadline::after_ms(kConnectMs)));
  const std::string request = CudaIpcRequest{endpoint.token, asking->key.second}.encode();
  TRIREME_RETURN_IF_ERROR(asking->socket.send_all(request.data(), request.size(), Deadline::after_ms(kConnectMs)));
  TRIREME_ASSIGN_OR_RETURN(asking->token,
                           reactor_->watch(asking->socket.fd(), EPOLLIN,
                                           [self = shared_from_this(), asking](Reactor::Token own, std::uint32_t) {
                                             self->on_answer(own, asking);
                                           }));
  reactor_->run_at(Deadline::after_ms(kAnswerMs), [weak = weak_from_this(), late = std::weak_ptr(asking)] {
    const auto self = weak.lock();
    if (const auto asked = late.lock(); self && asked) self->give_up(asked);
  });
  return Status::ok();
}

void CudaIpcImports::give_up(const std::shared_ptr<Asking>& asking) {
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(asking->key);
    if (entry == entries_.end() || entry->second.asking != asking) return;
    entry->second.asking = nullptr;
    entry->second.error =
        deadline_exceeded(fmt::format("rank {} was asked for the descriptor of its GPU memory {} ms ago and has not "
                                      "answered: its service thread is stopped or busy",
                                      asking->key.first, kAnswerMs));
  }
  reactor_->forget(asking->token);
  ring_();
}

void CudaIpcImports::on_answer(Reactor::Token own, const std::shared_ptr<Asking>& asking) {
  const auto keep = std::pair(shared_from_this(), asking);  // forget() may drop the handler that holds them.
  Result<std::shared_ptr<CudaIpcMapping>> mapping = take_answer(*keep.second);
  {
    const std::lock_guard lock(mutex_);
    // Unless it was forgotten meanwhile.
    const auto entry = entries_.find(keep.second->key);
    if (entry != entries_.end() && entry->second.asking == keep.second) {
      entry->second.asking = nullptr;
      if (mapping.is_ok()) {
        entry->second.mapping = *mapping;
      } else {
        entry->second.error = mapping.status();
      }
    }
  }
  reactor_->forget(own);
  ring_();
}

// The answer: a byte that says yes and the descriptor, or a no with the reason's length and text.
Result<std::shared_ptr<CudaIpcMapping>> CudaIpcImports::take_answer(Asking& asking) {
  const auto rest = Deadline::after_ms(kRestOfAnswerMs);
  const std::string what = fmt::format("asking rank {} for the descriptor of its GPU memory", asking.key.first);
  std::uint8_t refused = 0;
  if (Status status = asking.socket.receive_all(&refused, 1, rest); !status.is_ok()) return status.with_context(what);
  if (refused != 0) {
    std::string reason(refused, '\0');
    TRIREME_RETURN_IF_ERROR(asking.socket.receive_all(reason.data(), reason.size(), rest));
    return unavailable(what + ": " + reason);
  }
  auto received = receive_descriptor(asking.socket, rest);
  if (!received.is_ok()) return received.status().with_context(what);
  return CudaIpcMapping::open(device_, asking.region, received->first);
}

void CudaIpcImports::forget(int peer, std::uint64_t id) {
  std::shared_ptr<CudaIpcMapping> dropped;
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find({peer, id});
  if (entry == entries_.end()) return;
  dropped = std::move(entry->second.mapping);
  entries_.erase(entry);
}

std::size_t CudaIpcImports::kept() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace trireme
