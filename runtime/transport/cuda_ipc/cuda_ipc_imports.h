// CudaIpcImports: memory of the peers' GPUs, mapped here: mapping costs as much as copying
// some megabytes, so it is kept for the next time.
//
// A mapping is kept under its peer and the id of its allocation in the peer's process,
// so that memory freed and allocated anew at the same address is not taken for the old.
// It ends when the peer says that the memory is freed, when too many are kept, and with
// the transport; whoever copies from it holds it.
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <trireme/base/status.h>

#include "runtime/platform/api/sockets.h"
#include "runtime/transport/api/reactor.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_device.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_wire.h"

namespace trireme {

class CudaIpcMapping {
 public:
  // Errors: what the driver says.
  static Result<std::shared_ptr<CudaIpcMapping>> open(std::shared_ptr<CudaIpcDevice> device,
                                                      const CudaIpcRegion& region);
  static Result<std::shared_ptr<CudaIpcMapping>> open(std::shared_ptr<CudaIpcDevice> device,
                                                      const CudaIpcRegion& region, const UniqueFd& descriptor);
  ~CudaIpcMapping();
  CudaIpcMapping(const CudaIpcMapping&) = delete;
  CudaIpcMapping& operator=(const CudaIpcMapping&) = delete;

  const std::byte* at(std::uint64_t offset) const { return reinterpret_cast<const std::byte*>(base_ + offset); }

 private:
  CudaIpcMapping(std::shared_ptr<CudaIpcDevice> device, CudaIpcAccess access, CUdeviceptr base, std::size_t bytes)
      : device_(std::move(device)), access_(access), base_(base), bytes_(bytes) {}

  std::shared_ptr<CudaIpcDevice> device_;
  CudaIpcAccess access_;
  CUdeviceptr base_;
  std::size_t bytes_;
};

class CudaIpcImports : public std::enable_shared_from_this<CudaIpcImports> {
 public:
  // `ring` is called when a mapping that get() could not give has come, or will not.
  CudaIpcImports(std::shared_ptr<CudaIpcDevice> device, std::shared_ptr<Reactor> reactor, std::function<void()> ring)
      : device_(std::move(device)), reactor_(std::move(reactor)), ring_(std::move(ring)) {}

  // Null while the descriptor is on its way. Errors: what the driver says; unavailable
  // when the peer does not hand the descriptor out.
  Result<std::shared_ptr<CudaIpcMapping>> get(int peer, const CudaIpcEndpoint& endpoint, const CudaIpcRegion& region);
  void forget(int peer, std::uint64_t id);
  std::size_t kept() const;

 private:
  using Key = std::pair<int, std::uint64_t>;
  struct Asking;
  struct Entry {
    std::shared_ptr<CudaIpcMapping> mapping;
    Status error;                    // Why there is none.
    std::shared_ptr<Asking> asking;  // While the peer is asked.
    std::uint64_t used = 0;
  };
  void give_up(const std::shared_ptr<Asking>& asking);
  Status ask(const std::shared_ptr<Asking>& asking, const CudaIpcEndpoint& endpoint);
  void on_answer(Reactor::Token own, const std::shared_ptr<Asking>& asking);
  Result<std::shared_ptr<CudaIpcMapping>> take_answer(Asking& asking);

  std::shared_ptr<CudaIpcDevice> device_;
  std::shared_ptr<Reactor> reactor_;
  std::function<void()> ring_;
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::uint64_t clock_ = 0;  // Counts uses.
};

}  // namespace trireme
