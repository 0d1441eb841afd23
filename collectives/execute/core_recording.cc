// What a communicator writes into the rank's flight recorder.
#include "collectives/execute/core.h"

namespace trireme {

void Core::record(OperationState& operation) {
  if (recorder_ == nullptr) return;
  const Call& call = operation.call;
  operation.record = recorder_->enter(
      {static_cast<std::uint8_t>(call.kind), call.type, call.op, call.sequence, call.count, call.root, call.tag},
      operation.progress_ticks);
  operation.recorder = recorder_.get();
}

}  // namespace trireme
