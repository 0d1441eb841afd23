// The training program's checkpoints: what goes in, when they are taken, what is resumed.
//
// A checkpoint holds every parameter and both of its AdamW moments under its name
// ("parameter/h.0.mlp.c_fc.weight", "moment1/...", "moment2/..."), each rank writing its
// part of the bytes, and as metadata the training counters and the facts that must match
// on resume (model, seed, data). Any number of ranks may resume.
//
// Saving is asynchronous. A save that fails is an outcome, not an error: training goes on.
// Thread safety: one thread at a time. open, resume, save and finish are collective.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/parallel/byte_corpus.h>
#include <trireme/parallel/training_step.h>
#include <trireme/rendezvous/world.h>

#include "examples/gpt/options.h"

namespace trireme::gpt {

class Checkpoints {
 public:
  // Errors: invalid_argument or permission_denied when the folder cannot be used,
  // naming it. The trainer outlives this object.
  static Result<std::unique_ptr<Checkpoints>> open(const Options& options, const ByteCorpus& corpus,
                                                   std::shared_ptr<World> world, Trainer& trainer);
  ~Checkpoints();

  // Follows options.resume; true when a checkpoint was loaded into the trainer.
  // Errors: not_found when the one asked for is missing; invalid_argument naming the option
  // that differs from the run that saved it; data_loss when it is damaged.
  Result<bool> resume();
  // Starts a save of the trainer as it is now. Errors: stale_epoch when a newer attempt of
  // the job has taken over; this one must stop. All else is an outcome.
  Status save();
  struct Outcome {
    std::int64_t step = 0;
    Status status;
  };
  // Saves that have ended since the last call. Does not wait.
  std::vector<Outcome> ended();
  // Waits for what is being written.
  void finish();
  // Path loaded by resume(), "" when none.
  const std::string& resumed_from() const;

 private:
  struct Impl;
  explicit Checkpoints(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::gpt
