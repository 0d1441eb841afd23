// A member's connection to the store and the service thread that owns it.
//
// User threads put frames into `outgoing_`, wake the thread and wait for the reply by its
// number, so any number of requests may be under way. The thread also receives what the
// store pushes: failures, departures, questions about our activity. Every wait ends at
// its deadline, when the world fails, or when the store closes.
//
// When the connection breaks: a store inside a rank's process died with that rank, which
// is the culprit. A coordinator's store is asked again, until `coordinator_grace_ms` have
// passed, what became of us (a newer attempt may have begun); its answer, or its silence,
// becomes the failure.
// Thread safety: all public methods.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "runtime/rendezvous/control_plane.h"
#include "runtime/rendezvous/event_fd.h"
#include "runtime/rendezvous/failure_board.h"
#include "runtime/rendezvous/output_queue.h"
#include "runtime/rendezvous/store_session.h"

namespace trireme::store {

struct StoreClientOptions {
  ClientIdentity identity;
  std::vector<PeerInfo> peers;
  std::uint64_t coordinator_grace_ms = 2000;
  std::uint64_t request_timeout_ms = 60'000;  // Of put and add, which take no deadline.
};

class StoreClient final : public ControlPlane {
 public:
  static Result<std::unique_ptr<StoreClient>> start(StoreSession session, StoreClientOptions options,
                                                    std::shared_ptr<WorldSignals> signals);
  ~StoreClient() override;  // Leaves in order.

  Status put(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override;
  Result<std::vector<std::string>> exchange(std::string_view name, const std::vector<int>& members,
                                            std::string_view value, Deadline deadline) override;
  Result<std::vector<int>> agree_on_survivors(std::string_view name, const std::vector<int>& members,
                                              Deadline deadline) override;
  void report_failure(const Failure& failure) override;
  std::vector<std::optional<std::string>> collect_activities(Deadline deadline) override;
  void notify_launcher(std::string_view topic, std::string_view value) override;

 private:
  struct Outgoing {
    MessageType type{};
    std::uint64_t id = 0;
    std::shared_ptr<const std::string> payload;
  };
  struct Pending {  // On the stack of the thread that waits.
    bool done = false;
    std::string reply;
    std::vector<std::optional<std::string>> parts;  // Of collect_activities.
    std::size_t parts_missing = 0;
  };

  StoreClient(StoreSession session, EventFd wake, StoreClientOptions options, std::shared_ptr<WorldSignals> signals);

  // User threads.
  // `failed_world`: a failure of the world does not end it, only the end of the connection.
  Result<std::string> call(MessageType type, std::string payload, Deadline deadline, const std::string& what);
  // Why a request of this type ends now, if it does: the survivors' outlive the world's failure.
  Status ended_locked(MessageType type) const;
  Result<std::string> on_deadline(MessageType type, const std::string& what) const;
  void submit_locked(MessageType type, std::uint64_t id, std::string payload);
  void wait_locked(std::unique_lock<std::mutex>& lock, Deadline deadline);
  Status ended_locked() const;

  // The service thread.
  void loop();
  void take_outgoing();
  Status receive();
  void on_frame(Frame& frame);
  void on_reply(Frame& frame);
  void on_parts(const Frame& frame);
  void on_departed(const Frame& frame);
  void answer_activity(std::uint64_t query);
  void raise(const Failure& failure);
  void on_connection_lost(const Status& how);
  Status ask_what_happened(const Status& how);

  const StoreClientOptions options_;
  const std::shared_ptr<WorldSignals> signals_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, Pending*> pending_;
  std::vector<Outgoing> outgoing_;
  std::uint64_t next_id_ = 1;
  std::set<int> departed_;
  Status closed_;         // Not ok: the store closed in order and says why.
  bool leaving_ = false;  // Our own leave is under way: the end of the connection is expected.
  bool stop_ = false;

  // The service thread's own.
  StoreSession session_;
  OutputQueue output_;
  const EventFd wake_;
  std::thread thread_;  // Last: starts when all else is there.
};

}  // namespace trireme::store
