#include <trireme/platform/environment.h>

#include <charconv>
#include <cstdlib>

namespace trireme {

// The one list, in two parts. A variable is one line: name, default, meaning.
namespace {

// Adds what launchers and the system set.
std::vector<EnvironmentVariable> with_foreign(std::vector<EnvironmentVariable> own) {
  const std::vector<EnvironmentVariable> foreign = {
      {"CUDA_VISIBLE_DEVICES", "", "GPUs of this process, as CUDA numbers them"},
      // Open MPI and PMIx.
      {"OMPI_COMM_WORLD_RANK", "", "Rank under Open MPI's mpirun"},
      {"OMPI_COMM_WORLD_SIZE", "", "Number of ranks under Open MPI's mpirun"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "", "Local rank under Open MPI's mpirun"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "", "Local size under Open MPI's mpirun"},
      {"PMIX_RANK", "", "Rank under any PMIx launcher"},
      {"PMIX_NAMESPACE", "", "Job name under any PMIx launcher"},
      // Slurm.
      {"SLURM_PROCID", "", "Rank under srun"},
      {"SLURM_NTASKS", "", "Number of ranks under srun"},
      {"SLURM_LOCALID", "", "Local rank under srun"},
      {"SLURM_NODEID", "", "Node rank under srun"},
      {"SLURM_JOB_ID", "", "Slurm's job number"},
      {"SLURM_STEP_ID", "", "Slurm's step number"},
      {"SLURM_RESTART_COUNT", "", "How often Slurm has requeued the job"},
      {"SLURM_STEP_NODELIST", "", "Hosts of the Slurm step"},
      {"SLURM_STEP_TASKS_PER_NODE", "", "Ranks per host of the Slurm step"},
      {"SLURM_NODENAME", "", "This host's name in Slurm"},
      // The torchrun convention, which other launchers set too.
      {"RANK", "", "Rank"},
      {"WORLD_SIZE", "", "Number of ranks"},
      {"LOCAL_RANK", "", "Local rank"},
      {"MASTER_ADDR", "", "Host of rank 0"},
      {"MASTER_PORT", "", "Port of rank 0"},
      // The system.
      {"NO_COLOR", "", "Anything: no colours on terminals"},
      {"TMPDIR", "/tmp", "Folder for temporary files"},
      {"HOME", "", "The user's folder"},
      {"XDG_CACHE_HOME", "", "Folder of files that can be made again; default: .cache in HOME"},
      {"PATH", "/usr/local/bin:/usr/bin:/bin", "Folders searched for programs"},
  };
  own.insert(own.end(), foreign.begin(), foreign.end());
  return own;
}

}  // namespace

const std::vector<EnvironmentVariable>& environment_variables() {
  static const std::vector<EnvironmentVariable> list = with_foreign({
      // Set by `trireme run` for every rank.
      {"TRIREME_RANK", "", "This process's rank, 0 .. TRIREME_WORLD_SIZE - 1"},
      {"TRIREME_WORLD_SIZE", "", "Number of ranks of the job"},
      {"TRIREME_LOCAL_RANK", "", "Position among the job's ranks on this host"},
      {"TRIREME_LOCAL_SIZE", "", "Number of the job's ranks on this host"},
      {"TRIREME_NODE_RANK", "", "This host's number, in order of lowest ranks"},
      {"TRIREME_ATTEMPT", "", "0 at first, one more with every restart"},
      {"TRIREME_EPOCH", "", "Fencing number of the attempt; older epochs are refused"},
      {"TRIREME_JOB_ID", "", "Name of the job"},
      {"TRIREME_STORE", "", "Address of the job's store: host:port or unix:@name"},
      {"TRIREME_SECRET_FD", "", "Descriptor from which the job's secret is read"},
      {"TRIREME_SECRET", "", "The job's secret itself, for jobs started by hand"},
      {"TRIREME_SERVE_STORE", "0", "1: rank 0 hosts the store, at TRIREME_STORE, for jobs started by hand"},
      {"TRIREME_RECORDER_FD", "", "Descriptor of the memory that the rank's flight recorder writes to"},
      {"TRIREME_AGENT_SOCKET", "", "Unix socket on which a rank talks to its shim"},
      {"TRIREME_HOST_ID", "", "Overrides the host's identity, to make one host look like several"},
      // Set by users.
      {"TRIREME_TIMEOUT_MS", "60000", "Deadline of a collective: the longest it may stand still"},
      {"TRIREME_JOIN_TIMEOUT_MS", "60000", "How long ranks wait for each other at start"},
      {"TRIREME_COORDINATOR_GRACE_MS", "2000", "How long a rank looks for a coordinator that went silent"},
      {"TRIREME_LOG", "warn", "Log level, or topics with levels: tune=debug,transport=info"},
      {"TRIREME_METRICS_FILE", "", "File for Prometheus' textfile collector, replaced every 5 s; %r is the rank"},
      {"TRIREME_METRICS_PORT", "", "Port (0: a free one) or ADDRESS:PORT on which /metrics is served"},
      {"TRIREME_RECORDER_DIR", "", "Folder where ranks write their flight recorders after a failure"},
      {"TRIREME_UNGUARDED", "0", "1: no recorder, mismatch detection and deadlines, to measure their price"},
      {"TRIREME_TRANSPORT", "", "Forces one transport (shm, tcp, ...) between all ranks"},
      {"TRIREME_INTERFACE", "", "Networks tcp may use: interface names, addresses, CIDRs; !NAME leaves out; commas"},
      {"TRIREME_TCP_STREAMS", "0", "Sockets between a pair for large messages, at most 16; 0: as the link asks for"},
      {"TRIREME_VERBS_DEVICES", "", "RDMA devices to use: mlx5_0,mlx5_1:1, or all but some: !mlx5_2"},
      {"TRIREME_VERBS_RAILS", "4", "RDMA ports that one channel uses side by side, at most 4"},
      {"TRIREME_ALGORITHM", "", "Forces collective algorithms: ring, or all_reduce=ring,broadcast=tree"},
      {"TRIREME_TUNING", "", "The table that trireme tune wrote; default: a file per machine in XDG_CACHE_HOME"},
      {"TRIREME_BACKEND", "ours", "Who moves the data of communicators: ours, mpi or nccl"},
      {"TRIREME_BACKEND_FOLDER", "", "Where libtrireme_mpi.so lies, if not in lib/trireme"},
      {"TRIREME_NCCL_LIBRARY", "", "Absolute path of NVIDIA's libnccl.so.2 for backend nccl"},
      {"TRIREME_THREADS", "", "Threads a rank computes with; default: usable cores / ranks on this host"},
      {"TRIREME_KERNELS", "fast", "fast or reference: which CPU kernels run (reference in thread-sanitizer builds)"},
      // Settings of `trireme run`, for what no flag and no configuration file says.
      {"TRIREME_RUN_RANKS", "", "trireme run --ranks"},
      {"TRIREME_RUN_MAX_RESTARTS", "0", "trireme run --max-restarts"},
      {"TRIREME_RUN_GRACE", "10", "trireme run --grace"},
      {"TRIREME_RUN_TIMEOUT", "0", "trireme run --timeout"},
      {"TRIREME_RUN_EXPORT", "", "trireme run --export; several are separated by commas"},
      {"TRIREME_RUN_OUTPUT_DIR", "", "trireme run --output-dir"},
      {"TRIREME_RUN_NO_TAG", "false", "trireme run --no-tag"},
      {"TRIREME_RUN_OVERSUBSCRIBE", "false", "trireme run --oversubscribe"},
      {"TRIREME_RUN_STDIN", "auto", "trireme run --stdin"},
      {"TRIREME_RUN_WDIR", "", "trireme run --wdir"},
      {"TRIREME_RUN_JSON", "", "trireme run --json"},
      {"TRIREME_RUN_VERBOSE", "false", "trireme run --verbose"},
  });
  return list;
}

namespace {

bool is_listed(std::string_view name) {
  for (const EnvironmentVariable& variable : environment_variables()) {
    if (variable.name == name) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> environment(std::string_view name) {
  TRIREME_CHECK(is_listed(name), "an environment variable is read that environment.cc does not list");
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Result<std::int64_t> environment_integer(std::string_view name, std::int64_t fallback, std::int64_t low,
                                         std::int64_t high) {
  const std::optional<std::string> text = environment(name);
  if (!text) return fallback;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || rest != end || value < low || value > high) {
    return invalid_argument(std::string(name) + "=" + *text + ": expected an integer from " + std::to_string(low) +
                            " to " + std::to_string(high));
  }
  return value;
}

}  // namespace trireme
