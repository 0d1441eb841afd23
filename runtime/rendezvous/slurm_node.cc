#include "runtime/rendezvous/slurm_node.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include <fmt/core.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"

namespace trireme::store {
namespace {

constexpr std::int64_t kAskMs = 10'000;
constexpr std::size_t kLongestAnswer = 16'384;

// What `scontrol show node` prints, error messages included.
Result<std::string> ask_controller(const std::string& name, Deadline deadline) {
  const UniqueFd output(::memfd_create("trireme-scontrol", MFD_CLOEXEC));
  if (!output.valid()) return errno_status(errno, "make room for the answer of scontrol");
  SpawnOptions options;
  options.program = "scontrol";
  options.arguments = {"--oneliner", "show", "node", name};
  for (char** variable = ::environ; *variable != nullptr; ++variable) options.environment.emplace_back(*variable);
  options.stdout_fd = output.get();
  options.stderr_fd = output.get();
  TRIREME_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::spawn(options));
  const Result<ExitState> exit = child.wait(deadline.earlier(Deadline::after_ms(kAskMs)));
  if (!exit.is_ok()) {
    (void)child.send_signal(SIGKILL);
    (void)child.wait(Deadline::after_ms(kAskMs));
    return exit.status();
  }
  std::string text(kLongestAnswer, '\0');
  const ssize_t got = ::pread(output.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (exit->shell_code() != 0) return unavailable(fmt::format("{}: {}", exit->to_string(), text));
  return text;
}

Status cannot_resolve(const std::string& host) {
  return SocketAddress::tcp(host, 1).status();
}

}  // namespace

std::string node_address_in(std::string_view description) {
  constexpr std::string_view kKey = "NodeAddr=";
  for (std::size_t at = description.find(kKey); at != std::string_view::npos; at = description.find(kKey, at + 1)) {
    if (at != 0 && description[at - 1] != ' ' && description[at - 1] != '\n') continue;
    const std::string_view value = description.substr(at + kKey.size());
    return std::string(value.substr(0, value.find_first_of(" \n")));
  }
  return "";
}

Result<std::string> reachable_host_of_node(const std::string& name, Deadline deadline) {
  const Status unresolved = cannot_resolve(name);
  if (unresolved.is_ok()) return name;
  const Result<std::string> answer = ask_controller(name, deadline);
  const std::string address = answer.is_ok() ? node_address_in(*answer) : "";
  if (!address.empty() && address != name && cannot_resolve(address).is_ok()) return address;
  const std::string said = !answer.is_ok()   ? answer.status().message()
                           : address.empty() ? "names no NodeAddr"
                                             : fmt::format("NodeAddr={}", address);
  return not_found(
      fmt::format("{}; scontrol show node {}: {}; the ranks need a name or an address under which the "
                  "first node of the step can be reached (NodeAddr in slurm.conf)",
                  unresolved.message(), name, said));
}

}  // namespace trireme::store
