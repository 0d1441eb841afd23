// The transport as the table has it, and what tests of it have in common.
#pragma once

#include <string>

#include "runtime/transport/api/transport.h"

namespace trireme::test {

TransportFactory cuda_ipc_over_shm();
// Why no test of GPU memory can run here; "" when it can. Over the stand-in it always can.
std::string why_no_gpu();

}  // namespace trireme::test
