#include "runtime/transport/table/api/transport_table.h"

#include "runtime/transport/cuda_ipc/api/cuda_ipc_transport.h"
#include "runtime/transport/shm/api/shm_transport.h"
#include "runtime/transport/tcp/api/tcp_transport.h"
#include "runtime/transport/verbs/api/verbs_transport.h"

namespace trireme {
namespace {

Result<std::unique_ptr<Transport>> create_cuda_ipc_over_shm(const TransportEnvironment& environment) {
  return create_cuda_ipc_transport(environment, {"shm", create_shm_transport});
}

}  // namespace

std::span<const TransportFactory> transport_table() {
  static constexpr TransportFactory kTable[] = {
      {"shm", create_shm_transport},
      {"cuda_ipc", create_cuda_ipc_over_shm},
      {"verbs", create_verbs_transport},
      {"tcp", create_tcp_transport},
  };
  return kTable;
}

}  // namespace trireme
