// RankProcess: one rank of one attempt, its process and the two pipes it writes to.
// Thread safety: none.
#pragma once

#include <string>

#include <trireme/base/status.h>

#include "launcher/protocol/messages.h"
#include "launcher/system/descriptors.h"
#include "runtime/platform/api/process.h"

namespace trireme {

struct RankProcess {
  int rank = 0;
  ChildProcess child;
  bool ended = false;
  UniqueFd output[2];  // Our ends of its standard output and error.
  UniqueFd recorder;   // The memory its flight recorder writes to; invalid when the kernel gave none.

  // Starts the rank at position `local` of `job.ranks`. `stdin_fd` is -1 for none;
  // `secret_fd` holds the job's secret. The rank gets a process group of its own, so
  // that a terminal's ^C reaches it once, through us; and it is killed when we die.
  // Errors: those of ChildProcess::spawn.
  static Result<RankProcess> start(const JobSpec& job, const message::StartAttempt& attempt, int local, int stdin_fd,
                                   int secret_fd);
};

// What the rank's environment holds: the job's, and on top the variables by which
// World::join finds its place.
std::vector<std::string> rank_environment(const JobSpec& job, const message::StartAttempt& attempt, int local,
                                          int secret_fd, int recorder_fd);
// Whether the launcher sets this variable itself.
bool is_rank_variable(std::string_view name);

}  // namespace trireme
