#include "runtime/platform/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace trireme {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

bool is_unix(std::string_view text) {
  return text.substr(0, kUnixPrefix.size()) == kUnixPrefix;
}

Result<KernelAddress> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  int error = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) {
    hints.ai_flags = AI_NUMERICSERV;
    error = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  }
  if (error != 0 && host == "localhost") {
    // RFC 6761, 6.3: always the loopback, also where no hosts file says so (a bare container).
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    error = ::getaddrinfo("127.0.0.1", service.c_str(), &hints, &found);
  }
  if (error != 0) {
    return not_found("host '" + host + "' cannot be resolved (" + ::gai_strerror(error) +
                     "): check the name, or give a numeric address");
  }
  // IPv4 first: a name such as localhost has both, and listeners default to IPv4.
  const addrinfo* chosen = found;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) {
      chosen = entry;
      break;
    }
  }
  KernelAddress address;
  address.length = chosen->ai_addrlen;
  std::memcpy(&address.storage, chosen->ai_addr, chosen->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

Result<KernelAddress> unix_address(std::string_view text) {
  const std::string_view name = text.substr(kUnixPrefix.size());
  KernelAddress address;
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  if (name.empty() || name == "@" || name.size() >= sizeof(local.sun_path)) {
    return invalid_argument("address '" + std::string(text) + "': expected unix:/path or unix:@name with 1 to " +
                            std::to_string(sizeof(local.sun_path) - 1) + " characters after unix:");
  }
  std::memcpy(local.sun_path, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (name[0] == '@') {
    local.sun_path[0] = '\0';
  } else {
    ++address.length;  // The terminating zero of a path.
  }
  std::memcpy(&address.storage, &local, sizeof(local));
  return address;
}

struct HostPort {
  std::string host;
  int port = 0;
};

Result<HostPort> split_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  int port = -1;
  if (colon != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error != std::errc() || rest != end) port = -1;
  }
  const bool ambiguous = !bracketed && host.find(':') != std::string_view::npos;
  if (host.empty() || port < 0 || port > 65535 || ambiguous) {
    return invalid_argument("address '" + std::string(text) +
                            "': expected host:port, [IPv6]:port, unix:/path or unix:@name");
  }
  return HostPort{std::string(host), port};
}

}  // namespace

Result<KernelAddress> to_kernel_address(const SocketAddress& address) {
  if (is_unix(address.text)) return unix_address(address.text);
  TRIREME_ASSIGN_OR_RETURN(const HostPort parts, split_host_port(address.text));
  return resolve(parts.host, parts.port);
}

SocketAddress from_kernel_address(const KernelAddress& address) {
  if (address.family() == AF_UNIX) {
    const auto* local = reinterpret_cast<const sockaddr_un*>(&address.storage);
    const std::size_t offset = offsetof(sockaddr_un, sun_path);
    if (address.length <= offset) return {std::string(kUnixPrefix)};
    std::string name(local->sun_path, address.length - offset);
    if (name[0] == '\0') {
      name[0] = '@';
    } else {
      name.resize(std::strlen(name.c_str()));
    }
    return {std::string(kUnixPrefix) + name};
  }
  char host[NI_MAXHOST];
  char service[NI_MAXSERV];
  const int error = ::getnameinfo(address.get(), address.length, host, sizeof(host), service, sizeof(service),
                                  NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return {"unknown:0"};
  if (address.family() == AF_INET6) return {"[" + std::string(host) + "]:" + service};
  return {std::string(host) + ":" + service};
}

void disable_nagle(int fd, int family) {
  if (family != AF_INET && family != AF_INET6) return;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool is_self_connected(int fd) {
  KernelAddress local;
  KernelAddress remote;
  local.length = remote.length = sizeof(sockaddr_storage);
  if (::getsockname(fd, local.get(), &local.length) != 0) return false;
  if (::getpeername(fd, remote.get(), &remote.length) != 0) return false;
  return local.family() != AF_UNIX && local.length == remote.length &&
         std::memcmp(local.get(), remote.get(), local.length) == 0;
}

Result<SocketAddress> SocketAddress::tcp(const std::string& host, int port) {
  if (port < 0 || port > 65535) {
    return invalid_argument("port " + std::to_string(port) + " for host '" + host + "': expected 0 to 65535");
  }
  TRIREME_ASSIGN_OR_RETURN(const KernelAddress address, resolve(host, port));
  return from_kernel_address(address);
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  if (is_unix(text)) {
    TRIREME_RETURN_IF_ERROR(unix_address(text).status());
    return SocketAddress{std::string(text)};
  }
  TRIREME_ASSIGN_OR_RETURN(const HostPort parts, split_host_port(text));
  return tcp(parts.host, parts.port);
}

std::string SocketAddress::host() const {
  if (is_unix(text)) return {};
  const Result<HostPort> parts = split_host_port(text);
  return parts.is_ok() ? parts->host : std::string();
}

int SocketAddress::port() const {
  if (is_unix(text)) return 0;
  const Result<HostPort> parts = split_host_port(text);
  return parts.is_ok() ? parts->port : 0;
}

bool SocketAddress::is_numeric() const {
  if (is_unix(text)) return true;
  std::string name = host();
  name.resize(std::min(name.find('%'), name.size()));
  in6_addr bytes;
  return ::inet_pton(AF_INET, name.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, name.c_str(), &bytes) == 1;
}

}  // namespace trireme
