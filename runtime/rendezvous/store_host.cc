#include "runtime/rendezvous/store_host.h"

#include <fmt/core.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/address_choice.h"
#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/pmix_exchange.h"
#include "runtime/rendezvous/protocol.h"

namespace trireme::store {
namespace {

constexpr std::size_t kSecretBytes = 32;

StoreServerOptions server_options(const Bootstrap& bootstrap, const std::string& secret) {
  StoreServerOptions options;
  options.job_id = bootstrap.job_id;
  options.secret = secret;
  options.world_size = bootstrap.size;
  options.epoch = bootstrap.epoch;
  options.host_rank = 0;
  return options;
}

// The first address that is free. "[::]:port" serves IPv4 too; a host without IPv6 gets
// "0.0.0.0:port" instead.
Result<std::unique_ptr<StoreServer>> listen_on_first(const std::vector<std::string>& addresses,
                                                     StoreServerOptions options) {
  constexpr std::string_view kAny = "[::]:";
  Status last;
  for (const std::string& address : addresses) {
    options.listen_address = address;
    Result<std::unique_ptr<StoreServer>> server = StoreServer::start(options);
    if (!server.is_ok() && address.rfind(kAny, 0) == 0) {
      options.listen_address = "0.0.0.0:" + address.substr(kAny.size());
      Result<std::unique_ptr<StoreServer>> fallback = StoreServer::start(options);
      if (fallback.is_ok()) return fallback;
    }
    if (server.is_ok()) return server;
    last = server.status();
  }
  return last.with_context(fmt::format("rank 0 cannot host the job's store on any of {} addresses from {} on",
                                       addresses.size(), addresses.front()));
}

// Where the other hosts may reach a server that listens on all interfaces, likely
// addresses first.
Result<std::string> reachable_addresses(const std::string& listening) {
  const int port = SocketAddress{listening}.port();
  TRIREME_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> interfaces, interface_addresses());
  TRIREME_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> chosen,
                           select_addresses(interfaces, environment("TRIREME_INTERFACE").value_or(""), false));
  std::string addresses;
  for (const InterfaceAddress& interface : chosen) {
    // Others know a link-local address by another scope.
    if (!interface.loopback && !is_link_local(interface.address)) addresses += with_port(interface.address, port) + ",";
  }
  return addresses + fmt::format("{}:{}", host_name(), port);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

Result<std::unique_ptr<StoreServer>> host_by_pmix(Bootstrap& bootstrap, std::string& secret) {
  std::unique_ptr<StoreServer> server;
  PmixPlace place;
  const auto publish = [&]() -> Result<std::string> {
    bootstrap.size = place.size;
    const std::string fresh = random_hex(kSecretBytes);
    const bool one_host = place.local_size == place.size;
    const std::vector<std::string> listen =
        one_host ? std::vector<std::string>{"127.0.0.1:0", "unix:@trireme-" + random_hex(16)}
                 : std::vector<std::string>{"[::]:0"};
    TRIREME_ASSIGN_OR_RETURN(server, listen_on_first(listen, server_options(bootstrap, fresh)));
    std::string addresses = server->address();
    if (!one_host) {
      TRIREME_ASSIGN_OR_RETURN(addresses, reachable_addresses(server->address()));
    }
    return fresh + "," + addresses;
  };
  TRIREME_ASSIGN_OR_RETURN(const std::string shared, pmix_share(place, publish));
  if (place.rank != bootstrap.rank || (bootstrap.size > 0 && bootstrap.size != place.size)) {
    return invalid_argument(fmt::format("the environment says rank {} of {}, but PMIx says rank {} of {}",
                                        bootstrap.rank, bootstrap.size, place.rank, place.size));
  }
  bootstrap.size = place.size;
  std::vector<std::string> parts = split(shared);
  secret = parts.front();
  bootstrap.store_addresses.assign(parts.begin() + 1, parts.end());
  return server;
}

}  // namespace

Result<std::unique_ptr<StoreServer>> host_store(Bootstrap& bootstrap, std::string& secret) {
  if (bootstrap.source == Bootstrap::Source::pmix) return host_by_pmix(bootstrap, secret);
  if (bootstrap.listen_addresses.empty() || bootstrap.rank != 0) return std::unique_ptr<StoreServer>();
  TRIREME_ASSIGN_OR_RETURN(std::unique_ptr<StoreServer> server,
                           listen_on_first(bootstrap.listen_addresses, server_options(bootstrap, secret)));
  // Rank 0 need not search: it knows which address it took.
  const std::string& address = server->address();
  if (address.rfind("unix:", 0) == 0) {
    bootstrap.store_addresses = {address};
  } else {
    const int port = SocketAddress{address}.port();
    const bool any = address.rfind("[::]:", 0) == 0 || address.rfind("0.0.0.0:", 0) == 0;
    bootstrap.store_addresses =
        any ? std::vector<std::string>{fmt::format("127.0.0.1:{}", port), fmt::format("[::1]:{}", port)}
            : std::vector<std::string>{address};
  }
  return server;
}

}  // namespace trireme::store
