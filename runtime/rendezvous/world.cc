#include <trireme/rendezvous/world.h>

#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/check.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/api/store_server.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/rendezvous/host_identity.h"
#include "runtime/rendezvous/local_store.h"
#include "runtime/rendezvous/rank_recorder.h"
#include "runtime/rendezvous/store_client.h"
#include "runtime/rendezvous/store_host.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme {
namespace {

constexpr std::uint64_t kLingerMs = 10'000;
constexpr std::uint64_t kLingerAfterFailureMs = 1'000;

}  // namespace

std::string PeerInfo::to_string() const {
  return fmt::format("rank {} ({}, pid {})", rank, host, pid);
}

struct World::Impl {
  int rank = 0;
  std::int64_t epoch = 1;
  std::string job_id;
  std::vector<PeerInfo> peers;
  int local_size = 0;
  int node_count = 0;
  std::shared_ptr<store::WorldSignals> signals = std::make_shared<store::WorldSignals>();
  std::unique_ptr<StoreServer> server;  // When this rank hosts the store.
  std::unique_ptr<store::RankRecorder> recorder;
  std::unique_ptr<store::ControlPlane> control;  // Destroyed first: leaves.

  void count_hosts() {
    for (const PeerInfo& peer : peers) {
      local_size += peer.node_rank == peers[rank].node_rank ? 1 : 0;
      node_count = std::max(node_count, peer.node_rank + 1);
    }
  }

  // In a world of one rank.
  void stand_alone(const store::ClientIdentity& identity) {
    PeerInfo self;
    self.host = identity.host;
    self.host_identity = identity.host_identity;
    self.pid = identity.pid;
    peers = {self};
    control = std::make_unique<store::LocalStore>(signals);
  }

  Status meet(const std::vector<std::string>& addresses, const store::ClientIdentity& identity, Deadline deadline) {
    TRIREME_ASSIGN_OR_RETURN(const std::int64_t grace_ms,
                             environment_integer("TRIREME_COORDINATOR_GRACE_MS", 2000, 0, 3'600'000));
    TRIREME_ASSIGN_OR_RETURN(const std::int64_t request_ms,
                             environment_integer("TRIREME_TIMEOUT_MS", 60'000, 1, INT32_MAX));
    TRIREME_ASSIGN_OR_RETURN(store::StoreSession session, store::open_session(addresses, identity, deadline));
    TRIREME_ASSIGN_OR_RETURN(peers, store::wait_for_table(session, identity, deadline));
    store::StoreClientOptions options;
    options.identity = identity;
    options.peers = peers;
    options.coordinator_grace_ms = static_cast<std::uint64_t>(grace_ms);
    options.request_timeout_ms = static_cast<std::uint64_t>(request_ms);
    TRIREME_ASSIGN_OR_RETURN(control, store::StoreClient::start(std::move(session), std::move(options), signals));
    return Status::ok();
  }
};

World::World(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

World::~World() {
  impl_->control.reset();
  if (!impl_->server) return;
  // The others still need the store: while it lives, a death among them is known to all.
  const bool failed = impl_->signals->failures.first(0).has_value();
  if (!impl_->server->wait_until_empty(Deadline::after_ms(failed ? kLingerAfterFailureMs : kLingerMs))) {
    TRIREME_LOG_INFO("store", "closes while ranks are still connected: {}", impl_->server->describe_membership());
  }
}

Result<std::shared_ptr<World>> World::join(const WorldOptions& options) {
  const auto lookup = [](std::string_view name) { return environment(name); };
  TRIREME_ASSIGN_OR_RETURN(store::Bootstrap bootstrap, store::find_bootstrap(options, lookup));
  TRIREME_ASSIGN_OR_RETURN(
      const std::int64_t timeout_ms,
      environment_integer("TRIREME_JOIN_TIMEOUT_MS", std::max<std::int64_t>(options.join_timeout_ms, 0), 0, INT64_MAX));
  const Deadline deadline = Deadline::after_ms(static_cast<std::uint64_t>(timeout_ms));

  store::ClientIdentity identity;
  identity.host = host_name();
  identity.host_identity = !options.host_identity.empty()
                               ? options.host_identity
                               : environment("TRIREME_HOST_ID").value_or(store::host_identity());
  if (identity.host_identity.size() > store::kMaxTextBytes) {
    return invalid_argument(fmt::format("the host identity has {} characters (TRIREME_HOST_ID): expected at most {}",
                                        identity.host_identity.size(), store::kMaxTextBytes));
  }
  identity.pid = current_pid();

  auto impl = std::make_unique<Impl>();
  if (bootstrap.source == store::Bootstrap::Source::standalone) {
    impl->stand_alone(identity);
  } else {
    TRIREME_ASSIGN_OR_RETURN(identity.secret, store::find_secret(options, lookup));
    TRIREME_RETURN_IF_ERROR(store::locate_store_node(bootstrap, deadline));
    TRIREME_ASSIGN_OR_RETURN(impl->server, store::host_store(bootstrap, identity.secret));
    identity.rank = bootstrap.rank;
    identity.size = bootstrap.size;
    identity.epoch = bootstrap.epoch;
    identity.job_id = bootstrap.job_id;
    if (identity.job_id.size() > store::kMaxTextBytes) {
      return invalid_argument(fmt::format("the job id has {} characters (TRIREME_JOB_ID): expected at most {}",
                                          identity.job_id.size(), store::kMaxTextBytes));
    }
    TRIREME_RETURN_IF_ERROR(impl->meet(bootstrap.store_addresses, identity, deadline));
  }
  impl->rank = bootstrap.rank;
  impl->epoch = bootstrap.epoch;
  impl->job_id = bootstrap.job_id;
  impl->count_hosts();
  // Ranks that are threads of one process have a recorder each, and share the log; a process that is one rank says so.
  const bool is_process = options.rank < 0 && !options.standalone;
  if (is_process) set_log_identity(fmt::format("{}:{}", identity.host, impl->rank));
  const PeerInfo& self = impl->peers[impl->rank];
  impl->recorder = std::make_unique<store::RankRecorder>(self, static_cast<int>(impl->peers.size()), impl->job_id,
                                                         impl->epoch, is_process, impl->signals->failures);
  TRIREME_LOG_INFO("store", "rank {} of {} (started by {}), epoch {}, {} of {} hosts", impl->rank, impl->peers.size(),
                   store::to_string(bootstrap.source), impl->epoch, impl->peers[impl->rank].node_rank + 1,
                   impl->node_count);
  return std::shared_ptr<World>(new World(std::move(impl)));
}

int World::rank() const {
  return impl_->rank;
}
int World::size() const {
  return static_cast<int>(impl_->peers.size());
}
int World::local_rank() const {
  return impl_->peers[impl_->rank].local_rank;
}
int World::local_size() const {
  return impl_->local_size;
}
int World::node_rank() const {
  return impl_->peers[impl_->rank].node_rank;
}
int World::node_count() const {
  return impl_->node_count;
}
std::int64_t World::epoch() const {
  return impl_->epoch;
}
const std::string& World::job_id() const {
  return impl_->job_id;
}

const PeerInfo& World::peer(int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < size(), "World::peer wants a rank of this world");
  return impl_->peers[rank];
}

Status World::put(std::string_view key, std::string_view value) {
  return impl_->control->put(key, value);
}

Result<std::string> World::get(std::string_view key, Deadline deadline) {
  return impl_->control->get(key, deadline);
}

Result<std::int64_t> World::add(std::string_view key, std::int64_t delta) {
  return impl_->control->add(key, delta);
}

Result<std::vector<std::string>> World::exchange(std::string_view name, const std::vector<int>& members,
                                                 std::string_view value, Deadline deadline) {
  return impl_->control->exchange(name, members, value, deadline);
}

Result<std::vector<int>> World::agree_on_survivors(std::string_view name, const std::vector<int>& members,
                                                   Deadline deadline) {
  return impl_->control->agree_on_survivors(name, members, deadline);
}

std::optional<Failure> World::failure_among(std::uint64_t context, const std::vector<int>& members) const {
  return impl_->signals->failures.first_among(context, members);
}

std::optional<Failure> World::failure(std::uint64_t context) const {
  return impl_->signals->failures.first(context);
}

void World::report_failure(const Failure& failure) {
  TRIREME_CHECK(!failure.status.is_ok(), "a failure has an error");
  impl_->control->report_failure(failure);
}

std::shared_ptr<void> World::on_failure(std::function<void(const Failure&)> callback) {
  return impl_->signals->failures.subscribe(std::move(callback));
}

std::shared_ptr<void> World::set_activity_source(std::function<std::string()> source) {
  return impl_->signals->activity_sources->add(std::move(source));
}

std::vector<std::optional<std::string>> World::collect_activities(Deadline deadline) {
  return impl_->control->collect_activities(deadline);
}

const std::shared_ptr<Recorder>& World::recorder() const {
  return impl_->recorder->recorder();
}

void World::notify_launcher(std::string_view topic, std::string_view value) {
  impl_->control->notify_launcher(topic, value);
}

}  // namespace trireme
