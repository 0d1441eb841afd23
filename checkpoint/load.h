// One load: rank 0 proposes a checkpoint, every rank tries, rank 0 decides.
#pragma once

#include <optional>
#include <string>

#include <trireme/base/status.h>
#include <trireme/checkpoint/checkpointer.h>

#include "checkpoint/agreement.h"

namespace trireme {

struct LoadJob {
  std::string name;  // Unique in the agreement's scope, the same on all ranks.
  Deadline deadline = Deadline::never();
  std::string directory;  // The newest valid of these, when `path` is empty.
  std::string path;
  LoadOptions options;
};

Result<std::optional<LoadedCheckpoint>> run_load(Agreement& agreement, const LoadJob& job, CheckpointState& state);

}  // namespace trireme
