// Foreign: a communicator's calls on a backend that is not ours.
//
// Waiting polls the backend, spinning briefly and then yielding, until the call is done,
// its deadline has passed, or the communicator is known to be broken (a rank died, somebody
// aborted). After an error the backend's calls in flight are given up, not ended: their
// buffers may still be written if the backend cannot abort, so the process should end.
// Thread safety: as Communicator's.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/backend/backend.h"

namespace trireme {

// One started call, shared by its Work and its communicator.
struct ForeignOperation {
  std::unique_ptr<CallDetails> details;
  std::unique_ptr<BackendRequest> request;  // Null once it is over.
  Status status;
  Call call;
  bool over() const { return request == nullptr; }
};

class Foreign {
 public:
  // `health` tells why the communicator is broken, or ok.
  Foreign(std::unique_ptr<BackendCommunicator> backend, std::int64_t timeout_ms, std::function<Status()> health);
  ~Foreign();

  BackendCommunicator& backend() { return *backend_; }
  // Never null: what was refused is over already.
  std::shared_ptr<ForeignOperation> start(const Call& call, std::unique_ptr<CallDetails> details, const void* input,
                                          void* output);
  Status wait(ForeignOperation& operation);
  // Advances without blocking; true when it is over.
  bool test(ForeignOperation& operation);
  // All that are in flight.
  void poll();
  // ok, or the error that broke it.
  Status status() const { return broken_; }

 private:
  void advance(ForeignOperation& operation);
  Status break_with(Status status);
  void give_up();

  std::unique_ptr<BackendCommunicator> backend_;
  const std::int64_t timeout_ms_;
  const std::function<Status()> health_;
  Status broken_;
  std::vector<std::shared_ptr<ForeignOperation>> in_flight_;
};

}  // namespace trireme
