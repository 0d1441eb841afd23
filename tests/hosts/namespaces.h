// Hosts for tests: network namespaces of this process, joined by a bridge in one more
// namespace, so that the machine's own network is untouched. They have no names in any
// file system: nothing is left when the process ends, however it ends.
// Thread safety: create() and the destructor by one thread; enter() by any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/platform/api/unique_fd.h"

namespace trireme::test {

enum class Addressing { ipv4, ipv6, link_local };

class Namespaces {
 public:
  // Host i has 10.77.0.(i+1), fd77::(i+1) or fe80::(i+1) on eth0. Null with the reason when
  // this cannot be had (no root, no `ip` program, no bridges in the kernel).
  static std::unique_ptr<Namespaces> create(int hosts, Addressing addressing, std::string& why_not);

  // The calling thread, and the threads it starts, live on that host from now on.
  void enter(int host) const;
  int size() const { return static_cast<int>(hosts_.size()); }
  // Runs an `ip` command there; false when it failed.
  bool ip(int host, const std::string& arguments) const;
  // The same in the namespace of the bridge, whose ports are v0, v1, ...
  bool hub_ip(const std::string& arguments) const;

 private:
  UniqueFd hub_;
  std::vector<UniqueFd> hosts_;
};

}  // namespace trireme::test
