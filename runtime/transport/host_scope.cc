#include "runtime/transport/api/host_scope.h"

#include <unistd.h>

#include <array>

#include "runtime/platform/api/process.h"

namespace trireme {

std::string network_scope() {
  std::array<char, 128> link{};
  const ssize_t bytes = readlink("/proc/thread-self/ns/net", link.data(), link.size());
  return boot_id() + "/" + (bytes > 0 ? std::string(link.data(), static_cast<std::size_t>(bytes)) : "net:unknown");
}

}  // namespace trireme
