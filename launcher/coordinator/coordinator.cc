#include "launcher/coordinator/coordinator.h"

#include <algorithm>
#include <csignal>

#include <trireme/platform/clock.h>

namespace trireme {
namespace {

// How long the store waits for us to say why a connection ended: we see the process's
// end at about the same time, and know its exit code or signal.
constexpr std::int64_t kDeathNoticeMs = 300;

}  // namespace

const std::vector<int>& stop_signals() {
  static const std::vector<int> signals = {SIGINT, SIGTERM, SIGQUIT};
  return signals;
}

const std::vector<int>& forwarded_signals() {
  static const std::vector<int> signals = {SIGUSR1, SIGUSR2, SIGHUP, SIGCONT};
  return signals;
}

Coordinator::Coordinator(CoordinatorOptions options, SignalReceiver signals, ShimConnection shim)
    : state_(options), world_size_(options.world_size), signals_(std::move(signals)), shim_(std::move(shim)) {}

Result<JobRecord> Coordinator::run(JobSpec job, CoordinatorOptions options, SignalReceiver signals,
                                   ShimConnection shim) {
  Coordinator coordinator(std::move(options), std::move(signals), std::move(shim));
  Status status = coordinator.start(std::move(job));
  if (status.is_ok()) status = coordinator.loop_until_shim_ended();
  coordinator.link_.reset();  // The shim ends everything once it sees its end of the link closed.
  coordinator.shim_.socket.close();
  coordinator.shim_.clean_up();
  TRIREME_RETURN_IF_ERROR(status);
  return coordinator.state_.record();
}

Status Coordinator::start(JobSpec job) {
  TRIREME_ASSIGN_OR_RETURN(loop_, EventLoop::create());
  job.secret = random_hex(32);
  StoreServerOptions store;
  store.job_id = job.job_id;
  store.secret = job.secret;
  store.world_size = world_size_;
  store.epoch = 1;
  store.death_notice_ms = kDeathNoticeMs;
  TRIREME_ASSIGN_OR_RETURN(store_, StoreServer::start(std::move(store)));
  job.store_address = store_->address();
  TRIREME_ASSIGN_OR_RETURN(link_,
                           Link::open(
                               *loop_, std::move(shim_.socket), [this](const Message& message) { on_message(message); },
                               [this](const Status& why) { on_link_end(why); }));
  TRIREME_RETURN_IF_ERROR(loop_->watch(signals_.fd(), EventLoop::kRead, [this] { on_signals(); }));
  begun_at_ns_ = system_clock().now_ns();
  link_->send(message::Configure{kProtocolVersion, std::move(job)});
  feed(event::Begin{});
  return Status::ok();
}

Status Coordinator::loop_until_shim_ended() {
  while (!shim_ended_) TRIREME_RETURN_IF_ERROR(loop_->run_once());
  return Status::ok();
}

void Coordinator::feed(const Event& event) {
  const std::uint64_t now_ms = (system_clock().now_ns() - begun_at_ns_) / 1'000'000;
  for (const Action& action : state_.handle(event, now_ms)) {
    std::visit([this](const auto& a) { act(a); }, action);
  }
}

void Coordinator::act(const action::BeginEpoch& begin) {
  if (begin.epoch > 1) store_->begin_epoch(begin.epoch, world_size_);
}

void Coordinator::act(const action::ArmTimer& arm) {
  loop_->after_ms(arm.delay_ms, [this, arm] { feed(event::TimerFired{arm.timer, arm.epoch}); });
}

void Coordinator::act(const action::AnnounceDeath& death) {
  store_->announce_death(death.rank, death.reason);
}

void Coordinator::act(const action::Finish&) {
  finished_ = true;
  link_->send(message::Shutdown{});
}

void Coordinator::on_message(const Message& message) {
  std::visit(
      [this](const auto& m) {
        if constexpr (std::is_constructible_v<Event, decltype(m)>) feed(m);
      },
      message);
}

void Coordinator::on_signals() {
  for (const int signal : signals_.take()) {
    const std::vector<int>& stops = stop_signals();
    const bool is_stop = std::find(stops.begin(), stops.end(), signal) != stops.end();
    // After Finish the shim only writes out what is pending; whoever reads it may be stuck.
    if (is_stop && finished_) shim_ended_ = true;
    if (is_stop) feed(event::StopSignal{signal});
    if (!is_stop) feed(event::UserSignal{signal});
  }
}

void Coordinator::on_link_end(const Status& why) {
  shim_ended_ = true;
  if (!finished_) feed(event::ShimLost{"the shim on this host ended unexpectedly: " + why.message()});
}

}  // namespace trireme
