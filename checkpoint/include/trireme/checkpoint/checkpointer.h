// Checkpointer: asynchronous, sharded, atomic checkpoints of a job's state.
//
// save() copies what this rank must write into a staging buffer and returns; from then
// on the program may change everything it saved. A background thread writes this rank's
// shard file and the ranks agree, over the World's control plane (never over a training
// communicator), that the checkpoint is complete: every element of every item exactly
// once, every file safe on disk. Only then does one rename make it visible, so a folder
// named step-00000120 is a whole checkpoint or, after damage from outside, one whose
// checksums say so. Bytes that several ranks hold are written once, each rank a part.
//
// load() reads what any number of ranks saved into the layout of the ranks there are now,
// verifying every checksum of what it reads. load_newest() falls back to older
// checkpoints when the newest is damaged, and all ranks agree on which one is used.
//
// Fencing: creating a Checkpointer that is not read_only claims the directory for
// (job, epoch). An older attempt of the same job is refused with stale_epoch, and whoever
// held the directory before gets stale_epoch at its next commit, even if it is still
// running somewhere: the latest claim alone can commit.
//
// A failed save (disk full, folder gone) does not disturb training: its temporary folder
// is removed, older checkpoints stay, the error is logged and reported by the handle, by
// the next wait(), and by the next save()'s handle as previous_error().
//
// The directory must be on storage that all ranks see. Layout and bytes:
// docs/formats/checkpoint.md.
// Collective: create, save, load and load_newest are called by all ranks in the same
// order. Thread safety: one thread at a time; a SaveHandle may be used by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/checkpoint/state.h>
#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>

namespace trireme {

struct CheckpointerOptions {
  std::string directory;                     // Created when missing.
  int keep_last = 3;                         // Older ones are deleted after a commit; 0 keeps all.
  std::int64_t commit_timeout_ms = 600'000;  // A save or load that takes longer fails.
  bool read_only = false;                    // Only load: claims and removes nothing; save() is refused.
};

struct SaveStatistics {
  std::uint64_t bytes = 0;     // Written by this rank.
  std::uint64_t stall_ns = 0;  // How long save() kept the caller, waiting for an earlier save included.
  std::uint64_t total_ns = 0;  // From save() to the commit.
};

// One save in progress or finished. A copyable reference; dropping it changes nothing.
class SaveHandle {
 public:
  std::int64_t step() const;
  bool done() const;
  // ok: committed and durable. Errors: what went wrong, on whichever rank;
  // deadline_exceeded when `deadline` came first.
  Status wait(Deadline deadline = Deadline::never()) const;
  // The error of the save before this one, unless wait() has already returned it.
  const Status& previous_error() const;
  // REQUIRES: done().
  SaveStatistics statistics() const;

  struct State;
  explicit SaveHandle(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

struct LoadOptions {
  // A checkpoint may hold items that no rank's state names (to evaluate, say, without
  // the optimizer's). Otherwise that is a mismatch, so that no state is lost unseen.
  bool allow_unread_items = false;
};

struct LoadedCheckpoint {
  std::string path;
  CheckpointMetadata metadata;
  std::vector<std::string> skipped;  // Newer checkpoints passed over, and why. On rank 0.
};

class Checkpointer {
 public:
  // Claims the directory and removes what dead attempts left half-written.
  // Errors: invalid_argument; already_exists when a file is in the directory's place;
  // permission_denied; stale_epoch.
  static Result<std::unique_ptr<Checkpointer>> create(std::shared_ptr<World> world, CheckpointerOptions options);
  // Waits for a save in progress.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Takes and touches the staging buffer for such a state, so that the first save is as
  // quick as the others. Not collective. Errors: resource_exhausted.
  Status prepare(const CheckpointState& state);

  // Saves as step-N; replaces a checkpoint of that step. While an earlier save is still
  // being written, waits for it first (there is one staging buffer). What is wrong with
  // the state itself (invalid_argument) is on the handle too, for all ranks.
  // Errors: stale_epoch, once an earlier save had it: this attempt cannot save any more.
  Result<SaveHandle> save(std::int64_t step, const CheckpointState& state);
  // Waits for the save in progress, if any. Returns the first error of a save that no
  // wait() has returned yet.
  Status wait();

  // Fills the items' memory and the metadata from the checkpoint folder `path`.
  // Errors: not_found; data_loss when it is damaged; mismatch when items, types or
  // shapes differ, naming them. After an error the items' memory is unspecified.
  Result<LoadedCheckpoint> load(const std::string& path, CheckpointState& state, const LoadOptions& options = {});
  // The newest checkpoint that is whole; nullopt when there is none at all.
  // Errors: data_loss when there are some and all are damaged; mismatch as above.
  Result<std::optional<LoadedCheckpoint>> load_newest(CheckpointState& state, const LoadOptions& options = {});

 private:
  struct Impl;
  explicit Checkpointer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
