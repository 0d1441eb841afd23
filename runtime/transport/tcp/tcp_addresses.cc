#include "runtime/transport/tcp/tcp_addresses.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <charconv>

namespace trireme {
namespace {

// The scope id of "%eth0" or "%3"; 0 when the text has none or no such interface is here.
std::uint32_t scope_of(std::string_view host) {
  const std::size_t percent = host.find('%');
  if (percent == std::string_view::npos) return 0;
  const std::string name(host.substr(percent + 1));
  if (const unsigned index = if_nametoindex(name.c_str()); index != 0) return index;
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  return parsed.ptr == name.data() + name.size() ? number : 0;
}

}  // namespace

Result<NumericAddress> numeric_address(const std::string& text) {
  const SocketAddress address{text};
  const std::string host = address.host();
  const auto port = htons(static_cast<std::uint16_t>(address.port()));
  NumericAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = port;
    result.length = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, without_scope(host).c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = port;
    v6->sin6_scope_id = scope_of(host);
    result.length = sizeof(sockaddr_in6);
  } else {
    return invalid_argument("tcp transport: \"" + text + "\" is not a numeric address with a port");
  }
  return result;
}

std::string host_text(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr, text, sizeof text);
    return text;
  }
  if (storage.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof text);
    return text;
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  char name[IF_NAMESIZE] = {};
  if (v6.sin6_scope_id == 0 || if_indextoname(v6.sin6_scope_id, name) == nullptr) return text;
  return std::string(text) + "%" + name;
}

std::string local_host(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return host_text(storage);
}

}  // namespace trireme
