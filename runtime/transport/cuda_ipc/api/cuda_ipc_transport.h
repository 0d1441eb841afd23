// The cuda_ipc transport: memory of GPUs of one host, read by the receiver's copy engines
// over NVLink, PCIe or within one GPU, in builds with CUDA on machines with a GPU;
// elsewhere it says why not.
//
// A channel is a channel of another transport of the host (the table gives shm), which
// carries host memory as it always does, and beside it a narrow one for records. What
// send_in_place() is given in GPU memory is not sent: a record names it, and the receiver
// copies it from where it lies, into its own GPU memory or, for a reader on the host,
// into pinned memory that peek() shows. Memory that cannot be shared, and a peer whose
// test copy failed, are served by staging through the host.
//
// GPU memory is taken as it is: what a stream still writes must be waited for first.
#pragma once

#include "runtime/transport/api/transport.h"

namespace trireme {

// `base` carries host memory and records. Errors: unavailable when the build has no CUDA,
// when the machine or the container has no GPU, when its memory cannot be shared with
// other processes, or when this process uses no GPU and the transport is not forced.
Result<std::unique_ptr<Transport>> create_cuda_ipc_transport(const TransportEnvironment& environment,
                                                             const TransportFactory& base);

}  // namespace trireme
