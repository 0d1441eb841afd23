#include "runtime/rendezvous/host_identity.h"

#include <filesystem>
#include <system_error>

#include "runtime/platform/api/process.h"

namespace trireme::store {

std::string host_identity() {
  std::string identity = boot_id();
  if (identity.empty()) identity = host_name();
  for (const char* name : {"net", "ipc", "pid"}) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(std::string("/proc/self/ns/") + name, error);
    if (!error) identity += "/" + target.string();  // "net:[4026531840]"
  }
  return identity;
}

}  // namespace trireme::store
