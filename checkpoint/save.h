// One save, from the staged copy to the commit: what the background thread does.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <trireme/base/status.h>
#include <trireme/checkpoint/checkpointer.h>

#include "checkpoint/agreement.h"
#include "checkpoint/directory.h"
#include "checkpoint/shard_table.h"

namespace trireme {

struct SaveHandle::State {
  std::int64_t step = 0;
  Status previous_error;

  mutable std::mutex mutex;  // Guards what follows.
  mutable std::condition_variable changed;
  bool done = false;
  Status status;
  SaveStatistics statistics;
};

// What every save of a Checkpointer shares.
struct SaveContext {
  CheckpointerOptions options;
  Agreement* agreement = nullptr;
  DirectoryOwner owner;
  std::uint64_t generation = 0;  // Of the last commit. On rank 0.
};

struct SaveJob {
  std::string name;  // Unique in the agreement's scope, the same on all ranks.
  Deadline deadline = Deadline::never();
  CheckpointMetadata metadata;
  const std::byte* staged = nullptr;
  ShardTable table;  // Its status is not ok when the state could not be staged.
  std::uint64_t started_ns = 0;
  std::shared_ptr<SaveHandle::State> handle;
};

// Writes, agrees, commits, deletes what is too old. Logs a failure on the rank that
// decided it. The same Status on all ranks, unless a rank is lost on the way.
Status run_save(SaveContext& context, SaveJob& job);

}  // namespace trireme
