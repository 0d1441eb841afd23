// StoreServer: the job's meeting place. The coordinator of `trireme run` hosts it; under
// mpirun and srun rank 0 does.
//
// One thread, one listening port, any number of ranks. Keys with waiting readers,
// counters, membership with epochs, death announcements, failure broadcast, activity
// queries relayed between ranks. All decisions are in StoreState (store_state.h), a
// deterministic state machine without sockets or clocks; this class feeds it.
// docs/formats/store.md describes the bytes on the wire.
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

namespace trireme {

struct StoreServerOptions {
  std::string listen_address = "127.0.0.1:0";
  std::string job_id;
  std::string secret;  // Clients prove it (HMAC over a nonce); never sent.
  int world_size = 0;      // 0: what the first rank says that proves the secret.
  std::int64_t epoch = 1;  // Connections of older epochs are refused (stale_epoch).
  int host_rank = -1;      // The rank whose process hosts this server; -1: none does.
  // A rank's connection that ends without a leave is its death. When the launcher also
  // watches the processes, wait this long for announce_death, whose reason says more.
  std::int64_t death_notice_ms = 0;
  // Called on the server's thread; must not block.
  std::function<void(int rank, std::string_view topic, std::string_view value)> on_notify;
};

class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> start(StoreServerOptions options);
  // Sets up OpenSSL, which ends at exit() in its turn. Who ends servers, or threads of a
  // World, by std::atexit calls this before, or they would outlive it and fail.
  static void prepare();
  // Tells the ranks still connected that the store closes (no failure), then closes.
  ~StoreServer();

  const std::string& address() const;  // With the real port.
  // A new attempt: forgets keys and members; open connections of the old epoch are told
  // stale_epoch and closed.
  void begin_epoch(std::int64_t epoch, int world_size);
  // The launcher saw a rank's process end (pidfd): every rank is told at once.
  void announce_death(int rank, std::string_view reason);
  // Text for people: who joined, who is missing, since when.
  std::string describe_membership() const;
  // Waits until no rank is connected any more. False when the deadline came first.
  bool wait_until_empty(Deadline deadline) const;

 private:
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
