// Operation: one collective or message call of the C interface, checked and ready to run.
//
// check() refuses what cannot be right on this rank alone, before anything is started.
// Operations run on one thread: stage() brings device memory to the host, start() makes
// the call on the communicator (inside an open Group, or alone), unstage() takes results
// back.
// Thread safety: one thread at a time for an object.
#pragma once

#include <cstddef>
#include <memory>

#include <trireme/collectives/communicator.h>

#include "collectives/nccl_interface/comm.h"

namespace trireme::nccl {

enum class Kind {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  receive,
};

// The arguments of a call, as they came.
struct Request {
  Kind kind = Kind::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;    // Of the reductions.
  int peer = 0;  // Root, or the other rank of a message.
  void* stream = nullptr;
};

// ncclDataType_t as ours. Errors: invalid_argument.
Outcome data_type_of(int type, DataType& found);

class Operation {
 public:
  // Errors: invalid_argument or invalid_usage, naming the argument.
  static Outcome check(const Request& request, std::shared_ptr<Comm> comm, std::unique_ptr<Operation>& checked);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const std::shared_ptr<Comm>& comm() const { return comm_; }
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

  // Waits for the stream and copies inputs that are in device memory.
  Outcome stage();
  Status start();
  Outcome unstage();

 private:
  struct Buffer {  // Pinned host memory that stands for device memory.
    void* memory = nullptr;
    std::size_t bytes = 0;
  };

  Operation(const Request& request, std::shared_ptr<Comm> comm, std::shared_ptr<Communicator> communicator);
  // Elements on this rank; 0 where the call does not use the buffer.
  std::size_t sends() const;
  std::size_t receives() const;
  bool reduces() const { return request_.kind <= Kind::reduce || request_.kind == Kind::reduce_scatter; }
  bool is_rooted() const;
  Outcome check_buffers() const;
  Outcome find_reduction();
  Outcome read_scalar(const ScaledSum& sum, Reduction& reduction);
  Outcome make_buffer(const void* user, std::size_t bytes, Buffer& buffer);

  const Request request_;
  const std::shared_ptr<Comm> comm_;
  const std::shared_ptr<Communicator> communicator_;
  DataType type_ = DataType::u8;
  ScaledSum scaled_;  // When request_.op is one of the program's own.
  Accelerator* device_ = nullptr;
  Buffer input_;
  Buffer output_;
  Reduction reduction_{ReduceOp::sum};
};

}  // namespace trireme::nccl
