// The suite over the table of transports.
#include <utility>

#include "runtime/transport/table/api/transport_table.h"
#include "tests/contract/support.h"

namespace trireme::test {

std::span<const TransportFactory> contract_transports() {
  return transport_table();
}

std::vector<ContractRow> contract_rows() {
  std::vector<ContractRow> rows;
  for (const TransportFactory& factory : transport_table()) rows.push_back({std::string(factory.name), factory, {}, 0});
  const std::pair<const char*, Addressing> kinds[] = {{"_hosts_ipv4", Addressing::ipv4},
                                                      {"_hosts_ipv6", Addressing::ipv6},
                                                      {"_hosts_link_local", Addressing::link_local}};
  for (const TransportFactory& factory : transport_table()) {
    if (factory.name != "tcp") continue;
    rows.push_back({"tcp_striped", factory, {}, 3});
    for (const auto& [suffix, kind] : kinds) rows.push_back({std::string(factory.name) + suffix, factory, kind, 0});
  }
  return rows;
}

}  // namespace trireme::test
