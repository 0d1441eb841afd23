// Coordinator: drives a CoordinatorState. Events come from the shim's link, from
// signals and from timers, all in one loop; actions go to the link, to the store and to
// the timers. It decides nothing itself.
// Thread safety: none; runs on the calling thread.
#pragma once

#include <functional>
#include <memory>

#include <trireme/base/status.h>

#include "launcher/coordinator/coordinator_state.h"
#include "launcher/coordinator/shim_connection.h"
#include "launcher/protocol/link.h"
#include "launcher/system/event_loop.h"
#include "launcher/system/signals.h"
#include "runtime/rendezvous/api/store_server.h"

namespace trireme {

// The signals a job's coordinator receives on behalf of its ranks.
const std::vector<int>& stop_signals();
const std::vector<int>& forwarded_signals();

class Coordinator {
 public:
  // Runs the job to its end; `job.store_address` and `job.secret` are filled in here.
  // Errors: what the store, the loop or the descriptors return before the first rank
  // starts; once ranks have run, what happened to them is in the record.
  static Result<JobRecord> run(JobSpec job, CoordinatorOptions options, SignalReceiver signals, ShimConnection shim);

 private:
  Coordinator(CoordinatorOptions options, SignalReceiver signals, ShimConnection shim);
  Status start(JobSpec job);
  Status loop_until_shim_ended();
  void feed(const Event& event);
  void act(const action::BeginEpoch& begin);
  void act(const action::ArmTimer& arm);
  void act(const action::AnnounceDeath& death);
  void act(const action::Finish& finish);
  template <typename M>
  void act(const M& message) {
    link_->send(message);
  }
  void on_message(const Message& message);
  void on_signals();
  void on_link_end(const Status& why);

  CoordinatorState state_;
  int world_size_;
  SignalReceiver signals_;
  ShimConnection shim_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<Link> link_;
  std::uint64_t begun_at_ns_ = 0;
  bool finished_ = false;
  bool shim_ended_ = false;
};

}  // namespace trireme
