// What a foreign library must offer to be a communicator's backend.
//
// Calls arrive validated (validate.h). Adapters check what they support before they start
// anything. Completion is polled: nothing here blocks but creation and split.
// Thread safety: one thread at a time, but for abort(), which any thread may call.
#pragma once

#include <memory>
#include <string>

#include <trireme/collectives/backend.h>
#include <trireme/collectives/communicator.h>

#include "collectives/execute/operation.h"

namespace trireme {

class BackendRequest {
 public:
  virtual ~BackendRequest() = default;
  // True when done. Errors: what the library says; the request is then over.
  virtual Result<bool> test() = 0;
};

class BackendCommunicator {
 public:
  virtual ~BackendCommunicator() = default;
  virtual const BackendInfo& info() const = 0;
  // ok, or unsupported naming backend, call and type.
  virtual Status supports(const Call& call, const CallDetails* details) const = 0;
  // REQUIRES: supports(call). `details` outlives the request.
  virtual Result<std::unique_ptr<BackendRequest>> start(const Call& call, const CallDetails* details, const void* input,
                                                        void* output) = 0;
  // Collective. `members`: how many share this rank's color. Null for a negative color.
  virtual Result<std::unique_ptr<BackendCommunicator>> split(int color, int key) = 0;
  // Gives up what is in flight, if it can.
  virtual void abort() {}
  // Calls between the two are started together.
  virtual Status begin_group() { return {}; }
  virtual Status end_group() { return {}; }
};

using BackendResult = Result<std::unique_ptr<BackendCommunicator>>;

// "all_reduce of bf16 with sum: backend mpi <why>".
Status backend_refuses(const std::string& backend, const Call& call, const std::string& why);

// The backend `name` over all ranks of the world; collective. Errors: invalid_argument for
// an unknown name, listing those there are; unavailable or unsupported saying why it cannot
// be had here.
BackendResult make_backend(const std::string& name, const std::shared_ptr<World>& world);

}  // namespace trireme
