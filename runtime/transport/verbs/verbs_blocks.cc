#include "runtime/transport/verbs/verbs_blocks.h"

#include <sys/mman.h>

#include <cerrno>

#include <fmt/core.h>

namespace trireme {

VerbsBlock::~VerbsBlock() {
  for (const auto& [device, region] : regions) device->verbs().dereg_mr(region);
  if (memory != nullptr) munmap(memory, bytes);
}

const ibv_mr& VerbsBlock::region(const VerbsDevice& device) const {
  for (const auto& [owner, region] : regions) {
    if (owner.get() == &device) return *region;
  }
  TRIREME_CHECK(false, "a block that is not registered with the device of a channel");
  return *regions.front().second;
}

Result<std::unique_ptr<VerbsBlock>> VerbsBlocks::make(std::size_t bytes) const {
  auto block = std::make_unique<VerbsBlock>();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_status(errno, fmt::format("mmap of {} bytes for an RDMA channel", bytes));
  block->memory = static_cast<std::byte*>(memory);
  block->bytes = bytes;
  for (const auto& device : devices_) {
    TRIREME_ASSIGN_OR_RETURN(ibv_mr * region, device->register_memory(memory, bytes));
    block->regions.emplace_back(device, region);
  }
  return block;
}

Result<std::shared_ptr<VerbsBlock>> VerbsBlocks::acquire(std::size_t bytes) {
  std::unique_ptr<VerbsBlock> block;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = free_.find(bytes); found != free_.end()) {
      block = std::move(found->second);
      free_.erase(found);
    }
  }
  if (!block) {
    TRIREME_ASSIGN_OR_RETURN(block, make(bytes));
  }
  return std::shared_ptr<VerbsBlock>(block.release(), [pool = weak_from_this()](VerbsBlock* returned) {
    std::unique_ptr<VerbsBlock> owned(returned);
    const auto self = pool.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    self->free_.emplace(owned->bytes, std::move(owned));
  });
}

}  // namespace trireme
