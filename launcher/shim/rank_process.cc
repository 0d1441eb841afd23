#include "launcher/shim/rank_process.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "runtime/telemetry/api/log_format.h"
#include "runtime/telemetry/api/recorder.h"

namespace trireme {
namespace {

constexpr std::string_view kRankVariables[] = {"TRIREME_RANK",       "TRIREME_WORLD_SIZE", "TRIREME_LOCAL_RANK",
                                               "TRIREME_LOCAL_SIZE", "TRIREME_NODE_RANK",  "TRIREME_ATTEMPT",
                                               "TRIREME_EPOCH",      "TRIREME_JOB_ID",     "TRIREME_STORE",
                                               "TRIREME_SECRET_FD",  "TRIREME_RECORDER_FD"};

// Without one the rank keeps its own, which a kill takes with it.
UniqueFd recorder_memory(const JobSpec& job, const message::StartAttempt& attempt, int local) {
  RecorderIdentity identity;
  identity.job_id = job.job_id;
  identity.host = job.host;
  identity.program = job.program;
  for (const std::string& argument : job.arguments) identity.program += " " + argument;
  identity.rank = job.ranks[static_cast<std::size_t>(local)];
  identity.size = job.world_size;
  identity.node_rank = job.node_rank;
  identity.local_rank = local;
  identity.epoch = attempt.epoch;
  identity.attempt = attempt.attempt;
  Result<UniqueFd> memory = make_recorder_memory(identity);
  if (memory.is_ok()) return std::move(*memory);
  TRIREME_LOG_INFO("recorder", "rank {}: {}", identity.rank, memory.status().to_string());
  return {};
}

}  // namespace

bool is_rank_variable(std::string_view name) {
  return std::find(std::begin(kRankVariables), std::end(kRankVariables), name) != std::end(kRankVariables);
}

std::vector<std::string> rank_environment(const JobSpec& job, const message::StartAttempt& attempt, int local,
                                          int secret_fd, int recorder_fd) {
  std::vector<std::string> block;
  block.reserve(job.environment.size() + std::size(kRankVariables));
  for (const std::string& entry : job.environment) {
    if (!is_rank_variable(std::string_view(entry).substr(0, entry.find('=')))) block.push_back(entry);
  }
  block.push_back(fmt::format("TRIREME_RANK={}", job.ranks[static_cast<std::size_t>(local)]));
  block.push_back(fmt::format("TRIREME_WORLD_SIZE={}", job.world_size));
  block.push_back(fmt::format("TRIREME_LOCAL_RANK={}", local));
  block.push_back(fmt::format("TRIREME_LOCAL_SIZE={}", job.ranks.size()));
  block.push_back(fmt::format("TRIREME_NODE_RANK={}", job.node_rank));
  block.push_back(fmt::format("TRIREME_ATTEMPT={}", attempt.attempt));
  block.push_back(fmt::format("TRIREME_EPOCH={}", attempt.epoch));
  block.push_back("TRIREME_JOB_ID=" + job.job_id);
  block.push_back("TRIREME_STORE=" + job.store_address);
  block.push_back(fmt::format("TRIREME_SECRET_FD={}", secret_fd));
  if (recorder_fd >= 0) block.push_back(fmt::format("TRIREME_RECORDER_FD={}", recorder_fd));
  return block;
}

Result<RankProcess> RankProcess::start(const JobSpec& job, const message::StartAttempt& attempt, int local,
                                       int stdin_fd, int secret_fd) {
  RankProcess process;
  process.rank = job.ranks[static_cast<std::size_t>(local)];
  UniqueFd writers[2];
  for (int stream = 0; stream < 2; ++stream) {
    TRIREME_ASSIGN_OR_RETURN(Pipe pipe, make_pipe());
    TRIREME_RETURN_IF_ERROR(set_nonblocking(pipe.reader.get()));
    process.output[stream] = std::move(pipe.reader);
    writers[stream] = std::move(pipe.writer);
  }
  process.recorder = recorder_memory(job, attempt, local);
  const int recorder_fd = process.recorder.get();
  SpawnOptions options;
  options.program = job.program;
  options.arguments = job.arguments;
  options.environment = rank_environment(job, attempt, local, secret_fd, recorder_fd);
  options.working_directory = job.working_directory;
  options.stdin_fd = stdin_fd;
  options.stdout_fd = writers[0].get();
  options.stderr_fd = writers[1].get();
  options.new_process_group = true;
  options.parent_death_signal = SIGKILL;
  options.keep_fds = {secret_fd};
  if (recorder_fd >= 0) options.keep_fds.push_back(recorder_fd);
  TRIREME_ASSIGN_OR_RETURN(process.child, ChildProcess::spawn(options));
  if (recorder_fd >= 0) note_launched_process(recorder_fd, process.child.pid());
  return process;
}

}  // namespace trireme
