#include "runtime/transport/table/api/transport_table.h"

#include "runtime/transport/shm/api/shm_transport.h"
#include "runtime/transport/tcp/api/tcp_transport.h"
#include "runtime/transport/verbs/api/verbs_transport.h"

namespace trireme {

std::span<const TransportFactory> transport_table() {
  static constexpr TransportFactory kTable[] = {
      {"shm", create_shm_transport},
      {"verbs", create_verbs_transport},
      {"tcp", create_tcp_transport},
  };
  return kTable;
}

}  // namespace trireme
