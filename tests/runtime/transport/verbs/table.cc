// The contract suite over the tests' own devices, two of them with a fifth of the datagrams lost.
#include "runtime/transport/verbs/verbs_transport.h"
#include "tests/contract/support.h"
#include "tests/runtime/transport/verbs/fake_device.h"

namespace trireme::test {
namespace {

Result<std::unique_ptr<Transport>> create(const TransportEnvironment& environment) {
  static FakeDevices devices(2);
  devices.set_faults({.drop_datagrams = 20});
  return create_verbs_transport_on(devices.library(), environment);
}

}  // namespace

std::span<const TransportFactory> contract_transports() {
  static constexpr TransportFactory kTable[] = {{"verbs", create}};
  return kTable;
}

std::vector<ContractRow> contract_rows() {
  return {{"verbs", contract_transports().front(), {}, 0}};
}

}  // namespace trireme::test
