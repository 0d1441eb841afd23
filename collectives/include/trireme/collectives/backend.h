// Backends: who moves the data of a communicator.
//
// "ours" is Trireme's own. "mpi" hands calls to the MPI library of the machine, "nccl" to
// NVIDIA's NCCL; both are found and loaded when a communicator asks for them and are no
// dependency of this library. A communicator of any backend has the same calls, errors
// and groups; what a backend cannot do, its communicator refuses with `unsupported`,
// naming backend, call and type, before anything is started. Whatever the backend, the
// World sees ranks die, and its failure ends every wait.
// Thread safety: values and free functions.
#pragma once

#include <string>
#include <vector>

#include <trireme/base/data_type.h>

namespace trireme {

struct BackendInfo {
  std::string name;           // "ours", "mpi", "nccl"
  std::string version;        // "Open MPI v4.1.4, ...", for people.
  bool abortable = true;      // abort() ends what is in flight. Else: only our waiting for it.
  bool names_culprit = true;  // A hang or a disagreement is laid to a rank by name.
  bool host_memory = true;
  bool device_memory = false;
  bool low_precision_sums = true;  // Reduces f16, bf16 and fp8; sums are rounded once.
  bool average = true;             // ReduceOp::average
  bool scaled_and_custom = true;   // Reduction::scaled_sum and custom
  bool uneven_parts = true;        // all_gather_v and the like
  bool ranks_as_threads = true;    // Several ranks may share a process.
};

// All there are, whether or not they can be loaded here: "ours", "mpi", "nccl".
std::vector<std::string> backend_names();

}  // namespace trireme
