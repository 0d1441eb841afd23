// Timing: how long all ranks take for one pass of something, repeated.
// Thread safety: one thread at a time per rank.
#pragma once

#include <functional>

#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>

namespace trireme::bench {

struct Repetition {
  int warmup = 0;
  int iterations = 1;
  // Called before each pass that is timed; the ranks then meet and each pass is timed by
  // itself. Empty: the passes run one after the other and are timed together.
  std::function<void()> refresh;
};

// Seconds of one pass, averaged over the ranks; the mean of all passes, or the median of
// those timed one by one. Collective over `control`. Errors: what `pass` says.
Result<double> time_passes(Communicator& control, const Repetition& repetition, const std::function<Status()>& pass);

}  // namespace trireme::bench
