// SignalReceiver: signals as events of the loop.
//
// The signals are blocked in the calling thread, so create it before any other thread
// starts. Programs spawned by ChildProcess::spawn start with nothing blocked.
#pragma once

#include <vector>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {

class SignalReceiver {
 public:
  // `keep_ignored` names those that stay ignored when whoever started us ignored them
  // (SIGHUP under nohup); the others are received whatever the starter chose.
  static Result<SignalReceiver> create(const std::vector<int>& signals, const std::vector<int>& keep_ignored);
  int fd() const { return fd_.get(); }
  // The signals that arrived since the last call.
  std::vector<int> take();

 private:
  explicit SignalReceiver(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Blocks `signals` in the calling thread, without receiving them.
void block_signals(const std::vector<int>& signals);

}  // namespace trireme
