#include "runtime/rendezvous/bootstrap.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fmt/core.h>

#include "runtime/rendezvous/protocol.h"
#include "runtime/rendezvous/slurm.h"
#include "runtime/rendezvous/slurm_node.h"

namespace trireme::store {
namespace {

constexpr std::size_t kMaxSecretBytes = 4096;
constexpr std::int64_t kFirstSpecialSlurmStep = 0xfffffff0;  // Batch scripts, interactive steps, ...

// An integer of the environment: nullopt when the variable is not set.
Result<std::optional<std::int64_t>> integer(const EnvironmentLookup& environment, std::string_view name,
                                            std::int64_t low, std::int64_t high) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::optional<std::int64_t>();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < low || value > high) {
    return invalid_argument(fmt::format("{}={}: expected an integer from {} to {}", name, *text, low, high));
  }
  return std::optional<std::int64_t>(value);
}

// What one launcher's variables say about our place.
struct Place {
  std::string_view rank_name;
  std::string_view size_name;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> size;
};

Result<Place> read_place(const EnvironmentLookup& environment, std::string_view rank_name, std::string_view size_name) {
  Place place{rank_name, size_name, {}, {}};
  TRIREME_ASSIGN_OR_RETURN(place.rank, integer(environment, rank_name, 0, kMaxWorldSize - 1));
  TRIREME_ASSIGN_OR_RETURN(place.size, integer(environment, size_name, 1, kMaxWorldSize));
  if (place.rank && place.size && *place.rank >= *place.size) {
    return invalid_argument(
        fmt::format("{}={} contradicts {}={}: ranks count from 0", rank_name, *place.rank, size_name, *place.size));
  }
  return place;
}

Status check_agreement(const Place& a, const Place& b) {
  if (a.rank && b.rank && *a.rank != *b.rank) {
    return invalid_argument(fmt::format("{}={} contradicts {}={}: unset the one that is left over", a.rank_name,
                                        *a.rank, b.rank_name, *b.rank));
  }
  if (a.size && b.size && *a.size != *b.size) {
    return invalid_argument(fmt::format("{}={} contradicts {}={}: unset the one that is left over", a.size_name,
                                        *a.size, b.size_name, *b.size));
  }
  return Status::ok();
}

// One process of mpirun may start `trireme run`: the outer world of one rank says nothing.
bool is_outer_launcher(const Place& place) {
  return place.size && *place.size == 1;
}

std::vector<std::string> split_addresses(std::string_view text) {
  std::vector<std::string> addresses;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (comma != 0) addresses.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return addresses;
}

// "[fe80::1]:80" for IPv6 addresses, "host:80" otherwise.
std::string join_host_port(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.substr(0, 4) == "127.";
}

// Rank 0 hosts the store itself: a job that was started by hand, host by host. Where a
// launcher of ours gives the secret, it hosts the store too, whatever was inherited.
Status serve_store(const EnvironmentLookup& environment, Bootstrap& found) {
  TRIREME_ASSIGN_OR_RETURN(const std::optional<std::int64_t> serve, integer(environment, "TRIREME_SERVE_STORE", 0, 1));
  if (environment("TRIREME_SECRET_FD")) return Status::ok();
  if (serve.value_or(0) == 0 || found.rank != 0 || found.store_addresses.empty()) return Status::ok();
  const std::string& address = found.store_addresses.front();
  if (address.rfind("unix:", 0) == 0) {
    found.listen_addresses = {address};
    return Status::ok();
  }
  const std::size_t colon = address.rfind(':');
  int port = 0;
  const char* end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data() + std::min(colon, address.size() - 1) + 1, end, port);
  if (colon == std::string::npos || parsed.ptr != end || port < 1 || port > 65'535) {
    return invalid_argument(
        fmt::format("TRIREME_STORE={}: with TRIREME_SERVE_STORE=1 expected host:port, where rank 0 "
                    "is to host the store",
                    address));
  }
  const std::string host = address.substr(0, colon);
  found.listen_addresses = {is_loopback(host) ? address : fmt::format("[::]:{}", port)};
  return Status::ok();
}

Result<Bootstrap> from_trireme(const WorldOptions& options, const EnvironmentLookup& environment, const Place& place) {
  Bootstrap found;
  found.source = Bootstrap::Source::trireme;
  const std::optional<std::string> store = environment("TRIREME_STORE");
  const std::int64_t rank = options.rank >= 0 ? options.rank : place.rank.value_or(-1);
  const std::int64_t size = options.size >= 0 ? options.size : place.size.value_or(-1);
  found.store_addresses = split_addresses(options.store_address.empty() ? store.value_or("") : options.store_address);
  std::string missing;
  if (rank < 0) missing += ", the rank (TRIREME_RANK)";
  if (size < 0) missing += ", the number of ranks (TRIREME_WORLD_SIZE)";
  if (found.store_addresses.empty() && size != 1) missing += ", the store's address (TRIREME_STORE)";
  if (!missing.empty()) {
    return invalid_argument(
        fmt::format("a part of the job's description is missing: {}; start the program by `trireme "
                    "run`, or give all of rank, size and store (and TRIREME_SERVE_STORE=1 if rank 0 is to host it)",
                    missing.substr(2)));
  }
  if (size < 1 || size > kMaxWorldSize || rank >= size) {
    return invalid_argument(fmt::format("rank {} of {} ranks is not possible", rank, size));
  }
  TRIREME_ASSIGN_OR_RETURN(const std::optional<std::int64_t> epoch,
                           integer(environment, "TRIREME_EPOCH", 0, INT64_MAX));
  found.rank = static_cast<int>(rank);
  found.size = static_cast<int>(size);
  found.epoch = options.epoch >= 0 ? options.epoch : epoch.value_or(1);
  found.job_id = options.job_id.empty() ? environment("TRIREME_JOB_ID").value_or("") : options.job_id;
  if (found.store_addresses.empty()) found.source = Bootstrap::Source::standalone;
  TRIREME_RETURN_IF_ERROR(serve_store(environment, found));
  return found;
}

Result<Bootstrap> from_torchrun(const EnvironmentLookup& environment, const Place& place) {
  Bootstrap found;
  found.source = Bootstrap::Source::torchrun;
  found.rank = static_cast<int>(*place.rank);
  found.size = static_cast<int>(*place.size);
  if (found.size == 1) {
    found.source = Bootstrap::Source::standalone;
    return found;
  }
  const std::optional<std::string> host = environment("MASTER_ADDR");
  TRIREME_ASSIGN_OR_RETURN(const std::optional<std::int64_t> port, integer(environment, "MASTER_PORT", 1, 65'535));
  if (!host || !port) {
    return invalid_argument(fmt::format("RANK={} and WORLD_SIZE={} are set, but {} is not: set it to the {} of rank 0",
                                        found.rank, found.size, host ? "MASTER_PORT" : "MASTER_ADDR",
                                        host ? "port" : "host"));
  }
  found.job_id = fmt::format("torchrun-{}-{}", *host, *port);
  // torchrun's own store may hold the first port, so a few are looked at.
  for (std::int64_t p = *port; p < *port + kPortCandidates && p <= 65'535; ++p) {
    const int candidate = static_cast<int>(p);
    found.store_addresses.push_back(join_host_port(*host, candidate));
    found.listen_addresses.push_back(is_loopback(*host) ? join_host_port(*host, candidate)
                                                        : fmt::format("[::]:{}", candidate));
  }
  return found;
}

Result<Bootstrap> from_slurm(const EnvironmentLookup& environment, const Place& place, std::int64_t job,
                             std::int64_t step, const std::string& nodelist) {
  Bootstrap found;
  found.source = Bootstrap::Source::slurm;
  found.rank = static_cast<int>(*place.rank);
  found.size = static_cast<int>(*place.size);
  if (found.size == 1) {
    found.source = Bootstrap::Source::standalone;
    return found;
  }
  Result<std::vector<std::string>> hosts = expand_nodelist(nodelist);
  if (!hosts.is_ok()) return hosts.status().with_context("SLURM_STEP_NODELIST");
  found.job_id = fmt::format("slurm-{}.{}", job, step);
  TRIREME_ASSIGN_OR_RETURN(const std::optional<std::int64_t> restart,
                           integer(environment, "SLURM_RESTART_COUNT", 0, INT64_MAX - 1));
  found.epoch = restart.value_or(0) + 1;
  if (hosts->size() == 1) {
    found.store_addresses = {fmt::format("unix:@trireme-{}-{}", ::getuid(), found.job_id)};
    found.listen_addresses = found.store_addresses;
    return found;
  }
  found.store_node = hosts->front();
  for (const int port : candidate_ports(found.job_id)) {
    found.store_addresses.push_back(join_host_port(found.store_node, port));
    found.listen_addresses.push_back(fmt::format("[::]:{}", port));
  }
  return found;
}

}  // namespace

std::string_view to_string(Bootstrap::Source source) {
  switch (source) {
    case Bootstrap::Source::standalone:
      return "standalone";
    case Bootstrap::Source::trireme:
      return "trireme run";
    case Bootstrap::Source::pmix:
      return "PMIx";
    case Bootstrap::Source::torchrun:
      return "torchrun";
    case Bootstrap::Source::slurm:
      return "Slurm";
  }
  return "unknown";
}

Result<Bootstrap> find_bootstrap(const WorldOptions& options, const EnvironmentLookup& environment) {
  if (options.standalone) {
    Bootstrap alone;
    alone.job_id = options.job_id;
    if (options.epoch >= 0) alone.epoch = options.epoch;
    return alone;
  }
  if (options.rank >= 0 && options.size >= 0 && !options.store_address.empty()) {
    return from_trireme(options, environment, Place{});  // The caller says it all.
  }
  TRIREME_ASSIGN_OR_RETURN(const Place trireme, read_place(environment, "TRIREME_RANK", "TRIREME_WORLD_SIZE"));
  TRIREME_ASSIGN_OR_RETURN(const Place mpi, read_place(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
  TRIREME_ASSIGN_OR_RETURN(Place pmix, read_place(environment, "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"));
  TRIREME_ASSIGN_OR_RETURN(Place torch, read_place(environment, "RANK", "WORLD_SIZE"));
  if (!torch.rank || !torch.size) torch.rank = torch.size = std::nullopt;  // Too common a name to mean much alone.
  TRIREME_RETURN_IF_ERROR(check_agreement(pmix, mpi));
  if (trireme.rank || trireme.size || environment("TRIREME_STORE") || options.rank >= 0 || options.size >= 0) {
    if (!is_outer_launcher(mpi)) TRIREME_RETURN_IF_ERROR(check_agreement(trireme, pmix));
    if (!is_outer_launcher(torch)) TRIREME_RETURN_IF_ERROR(check_agreement(trireme, torch));
    return from_trireme(options, environment, trireme);
  }
  const std::optional<std::string> name_space = environment("PMIX_NAMESPACE");
  if (pmix.rank && name_space) {
    TRIREME_RETURN_IF_ERROR(check_agreement(pmix, torch));
    Bootstrap found;
    found.source = Bootstrap::Source::pmix;
    found.rank = static_cast<int>(*pmix.rank);
    found.size = static_cast<int>(pmix.size.value_or(-1));
    found.job_id = "pmix-" + name_space->substr(0, kMaxTextBytes - 5);
    if (found.size == 1) found.source = Bootstrap::Source::standalone;
    return found;
  }
  if (mpi.size && *mpi.size > 1) {
    return invalid_argument(
        fmt::format("OMPI_COMM_WORLD_SIZE={} says that mpirun started {} ranks, but PMIX_RANK and "
                    "PMIX_NAMESPACE are not set, by which they could meet: do not remove PMIX_* "
                    "from the environment",
                    *mpi.size, *mpi.size));
  }
  if (torch.rank) return from_torchrun(environment, torch);
  TRIREME_ASSIGN_OR_RETURN(const Place slurm, read_place(environment, "SLURM_PROCID", "SLURM_NTASKS"));
  TRIREME_ASSIGN_OR_RETURN(const std::optional<std::int64_t> job, integer(environment, "SLURM_JOB_ID", 0, INT64_MAX));
  TRIREME_ASSIGN_OR_RETURN(const std::optional<std::int64_t> step, integer(environment, "SLURM_STEP_ID", 0, INT64_MAX));
  const std::optional<std::string> nodelist = environment("SLURM_STEP_NODELIST");
  // A batch script has a rank and a number of tasks too, but runs once: it is no step of srun.
  const bool in_step = slurm.rank && slurm.size && job && step && *step < kFirstSpecialSlurmStep && nodelist;
  if (in_step) return from_slurm(environment, slurm, *job, *step, *nodelist);
  Bootstrap alone;
  alone.job_id = options.job_id;
  return alone;
}

Status locate_store_node(Bootstrap& bootstrap, Deadline deadline) {
  if (bootstrap.store_node.empty()) return Status::ok();
  TRIREME_ASSIGN_OR_RETURN(const std::string host, reachable_host_of_node(bootstrap.store_node, deadline));
  if (host == bootstrap.store_node) return Status::ok();
  bootstrap.store_addresses.clear();
  for (const int port : candidate_ports(bootstrap.job_id)) {
    bootstrap.store_addresses.push_back(join_host_port(host, port));
  }
  return Status::ok();
}

Result<std::string> find_secret(const WorldOptions& options, const EnvironmentLookup& environment) {
  if (!options.secret.empty()) return options.secret;
  TRIREME_ASSIGN_OR_RETURN(const std::optional<std::int64_t> fd, integer(environment, "TRIREME_SECRET_FD", 0, 1 << 20));
  if (!fd) return environment("TRIREME_SECRET").value_or("");
  std::string secret(kMaxSecretBytes, '\0');
  ssize_t got = -1;
  do {
    got = ::pread(static_cast<int>(*fd), secret.data(), secret.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return errno_status(errno, fmt::format("read the job's secret from descriptor {} (TRIREME_SECRET_FD; a file that "
                                           "`trireme run` keeps open across exec)",
                                           *fd));
  }
  if (got == 0) return data_loss(fmt::format("the job's secret, descriptor {} (TRIREME_SECRET_FD), is empty", *fd));
  secret.resize(static_cast<std::size_t>(got));
  return secret;
}

}  // namespace trireme::store
