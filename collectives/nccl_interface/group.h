// Groups: ncclGroupStart and ncclGroupEnd of one thread.
//
// Outside of a group a call runs at once and has finished when it returns. Inside, it is
// checked and queued; the outermost end runs all: communicators that are to be made, each
// on a thread of its own, then all operations, which one Group of Trireme advances
// together. If a queued call was refused, nothing of the group runs and its end repeats
// the refusal.
// If a communicator involved is non-blocking, the work runs on a thread of its own and
// the call answers in_progress; ncclCommGetAsyncError of every communicator involved says
// when it is over and what it came to.
// Thread safety: the open group belongs to the calling thread.
#pragma once

#include <functional>
#include <memory>

#include "collectives/nccl_interface/operation.h"

namespace trireme::nccl {

// A communicator to be made.
struct Setup {
  std::shared_ptr<Comm> comm;    // Null: this rank takes part, but gets none.
  std::shared_ptr<Comm> parent;  // That it is split or shrunk from; may be null.
  std::function<Result<std::shared_ptr<Communicator>>()> make;
};

void group_start();
// Errors: invalid_usage without a start; what a call of the group was refused for; what
// running it came to, the first failure in order of the calls.
Outcome group_end();
// Ends the open group without running it. Errors: invalid_usage without a start.
Outcome group_discard();

Outcome submit(std::unique_ptr<Operation> operation);
Outcome submit(Setup setup);
// Hands a refusal on, and remembers it if a group is open.
Outcome refuse(Outcome outcome);

}  // namespace trireme::nccl
