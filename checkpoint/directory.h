// The directory of a job's checkpoints: names, ownership, commit. Used by rank 0; the
// names by all.
//
// Ownership is a file, owner.json: the job, its epoch and a random token of the latest
// claim. It is changed, and a checkpoint is committed, under an exclusive lock of .lock;
// a commit is refused when the token is no longer the committer's. So after a claim
// returns, no earlier owner can commit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

#include "checkpoint/manifest.h"

namespace trireme {

struct DirectoryOwner {
  std::string job_id;
  std::int64_t epoch = 0;
  std::string token;
};

// "step-00000120"
std::string checkpoint_name(std::int64_t step);
// "step-00000120.tmp-3"
std::string temporary_name(std::int64_t step, std::int64_t epoch);
// The step of a checkpoint's name; nullopt for any other name.
std::optional<std::int64_t> step_of_name(std::string_view name);

// Makes the directory, writes owner.json, removes temporary folders of dead attempts.
// Errors: already_exists, permission_denied, ... of files; stale_epoch when a later
// attempt of the same job holds the directory.
Status claim_directory(const std::string& directory, const DirectoryOwner& owner, Deadline deadline);

// Writes the manifest into `temporary` (a name in the directory) and renames that to the
// checkpoint's name, replacing one of the same step. On success everything is durable.
// Errors: stale_epoch when another claim was made; else those of files.
Status commit_checkpoint(const std::string& directory, const DirectoryOwner& owner, const std::string& temporary,
                         const Manifest& manifest, Deadline deadline);

}  // namespace trireme
