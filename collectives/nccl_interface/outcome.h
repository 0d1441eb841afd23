// Outcome: what an NCCL call answers, and the sentence ncclGetLastError then tells.
// Thread safety: values; the functions from any thread.
#pragma once

#include <string>

#include <trireme/base/status.h>

#include "collectives/nccl_interface/abi.h"

namespace trireme::nccl {

struct Outcome {
  Code code = Code::success;
  std::string text;  // "" for success and in_progress.

  Outcome() = default;
  Outcome(Code failure, std::string why) : code(failure), text(std::move(why)) {}
  // ok is success. A peer's death, deadline or abort is remote_error; a disagreement
  // between ranks, or what we cannot do, invalid_usage; files and sockets system_error.
  Outcome(const Status& status);  // NOLINT: implicit on purpose
  bool is_ok() const { return code == Code::success; }
};

Outcome bad_argument(std::string why);
Outcome bad_usage(std::string why);
Outcome in_progress();

// The words of ncclGetErrorString. Any int is legal.
const char* describe_code(int code);

// Remembers a failure for ncclGetLastError, of this thread and of the process. Success and
// in_progress leave what was said before. Returns the code, as int. `function` names the call.
int answer(const char* function, const Outcome& outcome);
// What failed last on this thread, else in the process; "" when nothing has. Valid until
// this thread's next call of this library.
const char* last_error();

}  // namespace trireme::nccl
