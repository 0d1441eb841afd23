// What a Communicator is made of, shared by the files that implement it.
#pragma once

#include <memory>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/collectives/group.h>

#include "collectives/backend/foreign.h"
#include "collectives/execute/core.h"

namespace trireme {

struct Work::Operation : OperationState {
  std::shared_ptr<Core> core;  // Set while a Work may wait for it.
  // On another backend: the call there, and who waits for it.
  std::shared_ptr<ForeignOperation> foreign_call;
  std::shared_ptr<Foreign> foreign;
};

struct Group::Impl {
  std::vector<Communicator::Impl*> members;
  std::vector<Work> works;  // In order of their calls.
};

struct Communicator::Impl {
  std::shared_ptr<Core> core;
  std::vector<std::shared_ptr<Work::Operation>> pool;  // Reused once nobody holds them.
  std::shared_ptr<Group::Impl> group;                  // The open group, if any.
  // Who moves the data if not we: `core` then is the members, their world and their health.
  std::shared_ptr<Foreign> foreign;
  void adopt(std::unique_ptr<BackendCommunicator> backend);

  using Details = std::unique_ptr<CallDetails>;
  Status call(const Call& call, const void* input, void* output, Details details = nullptr);
  Work call_async(const Call& call, const void* input, void* output, Details details = nullptr);

 private:
  // Validates and starts, or completes at once. The progress thread is not woken.
  Work begin(const Call& call, const void* input, void* output, Details details);
  void submit(const std::shared_ptr<Work::Operation>& operation, const Call& call, const void* input, void* output,
              Details details);
  // Runs as two collectives of integers.
  bool is_staged(const Call& call) const;
  Status check_reproducible(const Call& call) const;
  std::shared_ptr<Work::Operation> new_operation();
  Work begin_foreign(const Call& call, const void* input, void* output, Details details);
  // For one rank, or nothing to do: done at once.
  bool trivially_done(const Call& call) const { return core->size() == 1 && !is_message(call.kind); }
  Status call_alone(const Call& call, const CallDetails* details, const void* input, void* output);
};

Call make_call(CallKind kind, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum, int root = 0, int tag = 0);

}  // namespace trireme
