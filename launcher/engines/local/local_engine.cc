#include "launcher/engines/local/local_engine.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <set>

#include <trireme/platform/clock.h>

#include "launcher/system/descriptors.h"
#include "launcher/system/process_tree.h"
#include "runtime/platform/api/process.h"

namespace trireme {
namespace {

constexpr std::uint64_t kShimEndMs = 15'000;
constexpr std::uint64_t kKillForMs = 10'000;

// Children that whoever replaced itself by us (exec) had started: not ours to touch.
std::set<Pid> children_from_before() {
  if (!reap_children([](Pid) { return false; })) return {};
  const std::vector<Pid> found = descendants_of(current_pid());
  return {found.begin(), found.end()};
}

// A shim that ended in order has left nothing, and the first look shows it.
void clean_up_after(ChildProcess& shim, const std::set<Pid>& spared) {
  Result<ExitState> ended = shim.wait(Deadline::after_ms(kShimEndMs));
  if (!ended.is_ok()) {
    static_cast<void>(shim.send_signal(SIGKILL));
    ended = shim.wait(Deadline::after_ms(kShimEndMs));
  }
  const Deadline deadline = Deadline::after_ms(kKillForMs);
  const auto is_spared = [&](Pid pid) { return spared.contains(pid); };
  while (!deadline.expired() && reap_children(is_spared)) {
    kill_descendants(current_pid(), spared);
    const std::vector<Pid> left = descendants_of(current_pid());
    if (std::all_of(left.begin(), left.end(), is_spared)) return;
    system_clock().sleep_ns(2'000'000);
  }
}

}  // namespace

Result<ShimConnection> start_local_shim() {
  TRIREME_RETURN_IF_ERROR(become_subreaper());
  const std::set<Pid> spared = children_from_before();
  TRIREME_ASSIGN_OR_RETURN(auto ends, connected_pair());
  SpawnOptions options;
  options.program = "/proc/self/exe";  // In the child it is still this program, even if its file was replaced.
  options.arguments = {"shim", std::to_string(ends.second.fd())};
  options.environment = environment_block();
  options.stdin_fd = 0;
  options.keep_fds = {ends.second.fd()};
  TRIREME_ASSIGN_OR_RETURN(ChildProcess shim, ChildProcess::spawn(options));
  ShimConnection connection;
  connection.socket = std::move(ends.first);
  auto child = std::make_shared<ChildProcess>(std::move(shim));
  connection.clean_up = [child, spared] { clean_up_after(*child, spared); };
  return connection;
}

}  // namespace trireme
