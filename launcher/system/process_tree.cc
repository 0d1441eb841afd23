#include "launcher/system/process_tree.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <optional>
#include <string>

#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

// /proc/PID/stat: "PID (name) S PARENT ...". The name may hold anything, ')' included.
std::optional<Pid> parent_of(Pid pid) {
  const Result<std::string> text = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text.is_ok()) return std::nullopt;  // It ended meanwhile.
  const std::size_t name_end = text->rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= text->size()) return std::nullopt;
  Pid parent = 0;
  const char* begin = text->data() + name_end + 4;
  if (std::from_chars(begin, text->data() + text->size(), parent).ec != std::errc()) return std::nullopt;
  return parent;
}

// Zombies are kept: one whose main thread alone has ended still runs.
std::multimap<Pid, Pid> children_by_parent() {
  std::multimap<Pid, Pid> children;
  const Result<std::vector<std::string>> names = list_directory("/proc");
  if (!names.is_ok()) return children;
  for (const std::string& name : *names) {
    Pid pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (const std::optional<Pid> parent = parent_of(pid)) children.emplace(*parent, pid);
  }
  return children;
}

std::vector<Pid> descendants_except(Pid root, const std::set<Pid>& spared) {
  const std::multimap<Pid, Pid> children = children_by_parent();
  std::vector<Pid> found;
  std::vector<Pid> parents = {root};
  while (!parents.empty()) {
    const auto [begin, end] = children.equal_range(parents.back());
    parents.pop_back();
    for (auto child = begin; child != end; ++child) {
      if (spared.contains(child->second)) continue;
      found.push_back(child->second);
      parents.push_back(child->second);
    }
  }
  return found;
}

}  // namespace

std::vector<Pid> descendants_of(Pid root) {
  return descendants_except(root, {});
}

void signal_processes(const std::vector<Pid>& pids, int signal) {
  for (const Pid pid : pids) ::kill(static_cast<pid_t>(pid), signal);
}

void kill_descendants(Pid root, const std::set<Pid>& spared) {
  std::set<Pid> stopped;
  std::vector<Pid> found;
  for (int round = 0; round < 16; ++round) {
    found = descendants_except(root, spared);
    const std::size_t before = stopped.size();
    for (const Pid pid : found) {
      if (stopped.insert(pid).second) ::kill(static_cast<pid_t>(pid), SIGSTOP);
    }
    if (stopped.size() == before) break;
  }
  signal_processes(found, SIGKILL);
}

bool reap_children(const std::function<bool(Pid)>& skip) {
  while (true) {
    siginfo_t info{};
    // WNOWAIT looks without collecting, so that a rank's exit state stays for its owner.
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != ECHILD;
    if (info.si_pid == 0) return true;
    if (skip(info.si_pid)) return true;  // Its owner collects it and asks again.
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace trireme
