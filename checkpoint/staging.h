// Staging: the copy of a rank's share of a state that a background thread writes while
// the program goes on. One buffer, touched once, reused by every save; it grows when a
// state needs more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/checkpoint/state.h>
#include <trireme/memory/arena.h>

#include "checkpoint/shard_table.h"

namespace trireme {

// Where each item's share lies in this rank's file, and from where it is copied.
struct StagingPlan {
  struct Piece {
    const void* source = nullptr;
    std::uint64_t bytes = 0;
  };
  std::vector<ShardEntry> entries;  // Without checksums.
  std::vector<Piece> pieces;        // One per entry.
  std::uint64_t bytes = 0;
};

// Errors: invalid_argument for a nameless or repeated item, an impossible shard, or
// missing memory.
Result<StagingPlan> plan_staging(const CheckpointState& state);

class Staging {
 public:
  // Errors: resource_exhausted.
  Status reserve(std::uint64_t bytes);
  // Copies every piece to its entry's offset. Errors: those of reserve().
  Status copy(const StagingPlan& plan);
  const std::byte* data() const { return data_; }

 private:
  std::optional<Arena> arena_;
  std::byte* data_ = nullptr;
};

}  // namespace trireme
