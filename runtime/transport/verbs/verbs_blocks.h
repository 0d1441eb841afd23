// Memory for channels: blocks that are registered once with every device in use and
// serve one channel after the other, since registering costs more than a channel's
// whole set-up otherwise.
// Thread safety: all methods.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/transport/verbs/verbs_device.h"

namespace trireme {

struct VerbsBlock {
  ~VerbsBlock();
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::vector<std::pair<std::shared_ptr<VerbsDevice>, ibv_mr*>> regions;

  // REQUIRES: the device is one of those the block is registered with.
  const ibv_mr& region(const VerbsDevice& device) const;
};

class VerbsBlocks : public std::enable_shared_from_this<VerbsBlocks> {
 public:
  explicit VerbsBlocks(std::vector<std::shared_ptr<VerbsDevice>> devices) : devices_(std::move(devices)) {}
  // A block of at least `bytes`, with what an earlier channel left in it. It comes back
  // when the last holder lets go of it: REQUIRES no device writes to it then.
  // Errors: resource_exhausted.
  Result<std::shared_ptr<VerbsBlock>> acquire(std::size_t bytes);

 private:
  Result<std::unique_ptr<VerbsBlock>> make(std::size_t bytes) const;

  std::vector<std::shared_ptr<VerbsDevice>> devices_;
  std::mutex mutex_;
  std::multimap<std::size_t, std::unique_ptr<VerbsBlock>> free_;
};

}  // namespace trireme
