// The descendants of a process, however they detached themselves.
//
// A process that has called become_subreaper() is the ancestor of everything started
// below it: a double fork, a new session or closed descriptors change nothing about
// that, and orphans become its own children. So "children exist" means "something is
// left", and killing until no child exists leaves nothing. A process that another user
// owns (set-uid programs) cannot be signalled without root; that is the limit.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

namespace trireme {

using Pid = std::int64_t;

// Every descendant of `root` that /proc shows now, ended ones that nobody collected yet included.
std::vector<Pid> descendants_of(Pid root);
void signal_processes(const std::vector<Pid>& pids, int signal);
// Stops what it finds until nothing new appears, so that nothing forks meanwhile, then
// kills it all. Pids in `spared` are left alone, with their descendants.
void kill_descendants(Pid root, const std::set<Pid>& spared = {});
// Collects ended children of ours for which `skip` says no. Returns whether any child,
// ended or not, is left.
bool reap_children(const std::function<bool(Pid)>& skip);

}  // namespace trireme
