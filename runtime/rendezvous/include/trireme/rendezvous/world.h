// World: the ranks of one job and how this process came to be one of them.
//
// join() finds out who we are (from `trireme run`, PMIx under mpirun and srun, Slurm's
// variables, or alone), meets the other ranks at the job's store, and starts one
// service thread. After that the World answers who is where, carries small
// control-plane values, and is the first to know when a rank dies: the end of a rank's
// connection to the store, or its exit seen by the launcher, becomes failure() in every
// other rank within a second. Bulk data does not pass here; that is transport's work.
//
// Several Worlds may live in one process (ranks as threads): nothing here is global.
// Thread safety: every method may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

namespace trireme {

class Recorder;

// Where a rank comes from. Fields left at their defaults are found in the environment.
struct WorldOptions {
  int rank = -1;
  int size = -1;
  // "host:port" or "unix:@name", or several with commas between, tried in turn; TRIREME_STORE
  std::string store_address;
  std::string job_id;                     // TRIREME_JOB_ID
  std::string secret;                     // Read from the descriptor TRIREME_SECRET_FD names.
  std::int64_t epoch = -1;                // TRIREME_EPOCH: grows with every attempt.
  std::int64_t join_timeout_ms = 60'000;  // TRIREME_JOIN_TIMEOUT_MS, when set, decides.
  // Ranks of equal identity take each other for neighbours on one host; found in the
  // boot id and the namespaces when empty. TRIREME_HOST_ID
  std::string host_identity;
  // Asserts that this rank is alone, whatever the environment says.
  bool standalone = false;
};

// One rank, as all ranks know it.
struct PeerInfo {
  int rank = 0;
  int node_rank = 0;          // Hosts numbered in order of their lowest rank.
  int local_rank = 0;         // Position among the ranks of the same host.
  std::string host;           // Host name, for people.
  std::string host_identity;  // Boot id and namespaces: equal means shared memory works.
  std::int64_t pid = 0;
  std::string to_string() const;  // "rank 3 (node1, pid 4711)"
};

// What went wrong, once something has: the same words in every rank.
struct Failure {
  Status status;
  int culprit_rank = -1;      // -1 when no single rank is to blame.
  std::uint64_t context = 0;  // The communicator it concerns; 0: the whole world.
};

class World {
 public:
  // Errors: deadline_exceeded listing the ranks that joined and those missing;
  // invalid_argument for contradicting variables, naming both; permission_denied for a
  // wrong secret; stale_epoch when a newer attempt exists.
  static Result<std::shared_ptr<World>> join(const WorldOptions& options = {});
  // Leaves in order: the other ranks see a departure, not a death. The rank that hosts
  // the store (rank 0 under mpirun and srun) waits for the others to leave first, at most
  // 10 s, or 1 s once the world has failed.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;  // Ranks on this host.
  int node_rank() const;
  int node_count() const;
  std::int64_t epoch() const;
  const std::string& job_id() const;
  const PeerInfo& peer(int rank) const;  // REQUIRES: 0 <= rank < size().

  // The control plane: small values (below 16 MiB), not for bulk data.
  Status put(std::string_view key, std::string_view value);
  // Waits for the key. Errors: deadline_exceeded naming the key; the world's failure, when
  // there is one; else peer_dead when all other ranks have left, so that nobody can put it.
  Result<std::string> get(std::string_view key, Deadline deadline);
  // Adds to a counter (created as 0) and returns the new value.
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);
  // Every member puts a value and gets all, in the order of `members` (world ranks).
  // `name` is unique per exchange among the members. Errors: deadline_exceeded listing
  // the ranks that have not come; the world's failure, when there is one; else peer_dead
  // naming a member that has left the job.
  Result<std::vector<std::string>> exchange(std::string_view name, const std::vector<int>& members,
                                            std::string_view value, Deadline deadline);

  // Who of `members` goes on: every survivor calls this and gets the same list, in the order
  // of `members`, of those that called; it waits for all but the dead and those who left.
  // Works after a failure of the world. Errors: deadline_exceeded listing who has not come.
  Result<std::vector<int>> agree_on_survivors(std::string_view name, const std::vector<int>& members,
                                              Deadline deadline);

  // The first failure known that concerns `context` (or the whole world), if any.
  std::optional<Failure> failure(std::uint64_t context = 0) const;
  // For those who go on without others: of the world's failures only one whose culprit is
  // among `members` (world ranks), or that has no culprit, concerns them.
  std::optional<Failure> failure_among(std::uint64_t context, const std::vector<int>& members) const;
  // Tells every rank. The first report wins; later ones are ignored.
  void report_failure(const Failure& failure);
  // Called on the service thread when a failure becomes known, at once if one already
  // is (then on the caller's thread); must not block. The returned token unsubscribes
  // when destroyed: afterwards the callback is not running and never runs again. Hold no
  // lock there that the callback takes.
  std::shared_ptr<void> on_failure(std::function<void(const Failure&)> callback);

  // What this rank is doing, asked by other ranks; called on the service thread, must
  // not block. The text is opaque here (collectives encode operation and waiting-for).
  // All sources answer, their texts one after the other, oldest first; "" without one.
  std::shared_ptr<void> set_activity_source(std::function<std::string()> source);
  // Asks all ranks; entry r is nullopt when rank r did not answer by the deadline (it is
  // stopped, or its host is gone) or has left.
  std::vector<std::optional<std::string>> collect_activities(Deadline deadline);

  // The rank's flight recorder, for the runtime's own layers. Never null.
  const std::shared_ptr<Recorder>& recorder() const;

  // Messages to the launcher, when there is one: no effect otherwise.
  void notify_launcher(std::string_view topic, std::string_view value);

 private:
  struct Impl;
  explicit World(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
