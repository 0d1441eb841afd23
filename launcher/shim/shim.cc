#include "launcher/shim/shim.h"

#include <fmt/core.h>

#include <csignal>

#include <trireme/platform/clock.h>

#include "launcher/system/process_tree.h"
#include "runtime/telemetry/api/inspect.h"

namespace trireme {
namespace {

// While killing: how soon to look again for what was forked meanwhile.
constexpr std::uint64_t kKillAgainMs = 20;
// When the coordinator is gone: how long to go on killing what the kernel does not end.
constexpr std::uint64_t kKillForMs = 10'000;
// Reads from a pipe whose writers are gone; it holds 16 such pieces at most.
constexpr int kLastReads = 16;

}  // namespace

Status Shim::run(Socket socket) {
  Shim shim;
  TRIREME_RETURN_IF_ERROR(shim.start(std::move(socket)));
  while (!shim.done_) TRIREME_RETURN_IF_ERROR(shim.loop_->run_once());
  return shim.result_;
}

Status Shim::start(Socket socket) {
  // The terminal's signals are for the coordinator, which tells us what to do.
  block_signals({SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGTTIN, SIGTTOU});
  TRIREME_RETURN_IF_ERROR(become_subreaper());
  TRIREME_ASSIGN_OR_RETURN(loop_, EventLoop::create());
  TRIREME_ASSIGN_OR_RETURN(SignalReceiver signals, SignalReceiver::create({SIGCHLD}, {}));
  child_signals_ = std::make_unique<SignalReceiver>(std::move(signals));
  TRIREME_RETURN_IF_ERROR(loop_->watch(child_signals_->fd(), EventLoop::kRead, [this] {
    child_signals_->take();
    check_quiet();
  }));
  TRIREME_ASSIGN_OR_RETURN(
      link_, Link::open(
                 *loop_, std::move(socket), [this](const Message& message) { on_message(message); },
                 [this](const Status& why) { end_with(shutdown_ ? Status::ok() : why.with_context("coordinator")); }));
  return Status::ok();
}

void Shim::on_message(const Message& message) {
  if (done_) return;
  std::visit([this](const auto& m) { on(m); }, message);
}

// Whatever the reason, nothing of ours survives us.
void Shim::end_with(Status status) {
  if (done_) return;
  done_ = true;
  result_ = std::move(status);
  const Deadline deadline = Deadline::after_ms(kKillForMs);
  while (reap_children([](Pid) { return false; }) && !deadline.expired()) {
    kill_descendants(current_pid());
    system_clock().sleep_ns(kKillAgainMs * 1'000'000 / 10);
  }
}

void Shim::on(const message::Configure& configure) {
  if (configure.version != kProtocolVersion) {
    return end_with(
        mismatch(fmt::format("the coordinator speaks version {} of the launcher's protocol, this shim "
                             "version {}: install the same release on all hosts",
                             configure.version, kProtocolVersion)));
  }
  job_ = configure.job;
  const auto prepare = [this]() -> Status {
    TRIREME_ASSIGN_OR_RETURN(secret_, sealed_memory("trireme-secret", job_.secret));
    const bool files = !job_.output_directory.empty();
    TRIREME_RETURN_IF_ERROR(want_descriptors(descriptors_of_shim(job_.ranks.size(), files)));
    OutputRouter::Events events;
    events.on_drained = [this] {
      set_reading(!router_->congested());
      if (shutdown_ && router_->flushed()) done_ = true;
    };
    events.on_closed = [this](const Status& why) { link_->send(message::OutputClosed{why.message()}); };
    TRIREME_ASSIGN_OR_RETURN(router_, OutputRouter::create(*loop_, job_, std::move(events)));
    stdin_ = std::make_unique<StdinSource>(*loop_, job_);
    export_metrics();
    return Status::ok();
  };
  if (Status status = prepare(); !status.is_ok()) end_with(std::move(status));
}

void Shim::on(const message::StartAttempt& start) {
  attempt_ = start;
  quiet_ = false;
  killing_ = false;
  keep_recordings_ = false;
  record_ = {};
  record_.entries.resize(job_.ranks.size());
  for (std::size_t local = 0; local < job_.ranks.size(); ++local) record_.entries[local].rank = job_.ranks[local];
  ranks_.clear();
  recorders_->clear();
  ranks_.reserve(job_.ranks.size());  // Handlers hold positions, not addresses.
  running_ = 0;
  stdin_->begin_attempt();
  Status status = router_->begin_attempt(start.attempt);
  for (int local = 0; local < static_cast<int>(job_.ranks.size()); ++local) {
    if (status.is_ok()) status = start_rank(local);
    if (status.is_ok()) continue;
    report_not_started(local, status);
    break;
  }
  check_quiet();
}

Status Shim::start_rank(int local) {
  UniqueFd keep;
  TRIREME_ASSIGN_OR_RETURN(const int stdin_fd,
                           stdin_->descriptor_for(job_.ranks[static_cast<std::size_t>(local)], keep));
  TRIREME_ASSIGN_OR_RETURN(RankProcess process, RankProcess::start(job_, attempt_, local, stdin_fd, secret_.get()));
  ranks_.push_back(std::move(process));
  RankProcess& rank = ranks_.back();
  recorders_->add(rank.recorder.get());
  Status watched = loop_->watch(rank.child.pidfd(), EventLoop::kRead, [this, local] { on_rank_end(local); });
  if (!watched.is_ok()) {
    rank.ended = true;  // Killed here and collected like an orphan.
    static_cast<void>(rank.child.send_signal(SIGKILL));
    return watched;
  }
  ++running_;
  ExitRecord::Entry& entry = record_.entries[static_cast<std::size_t>(local)];
  entry.pid = rank.child.pid();
  entry.started = true;
  link_->send(message::RankStarted{attempt_.epoch, rank.rank, entry.pid});
  watch_output(local, OutputStream::out);
  watch_output(local, OutputStream::err);
  return Status::ok();
}

void Shim::report_not_started(int failed_local, const Status& why) {
  for (int local = failed_local; local < static_cast<int>(job_.ranks.size()); ++local) {
    const bool is_cause = local == failed_local;
    link_->send(
        message::StartFailed{attempt_.epoch, job_.ranks[static_cast<std::size_t>(local)], is_cause,
                             is_cause ? why.message() : "not tried, because another rank could not be started"});
  }
}

void Shim::watch_output(int local, OutputStream stream) {
  const int fd = ranks_[static_cast<std::size_t>(local)].output[static_cast<int>(stream)].get();
  const std::uint32_t interest = reading_ ? EventLoop::kRead : 0;
  const Status status = loop_->watch(fd, interest, [this, local, stream] { read_output(local, stream); });
  if (!status.is_ok()) router_->notice("a rank's output is lost: " + status.to_string());
}

// Reads what is there, and no more than a fair share at a time.
void Shim::read_output(int local, OutputStream stream) {
  UniqueFd& fd = ranks_[static_cast<std::size_t>(local)].output[static_cast<int>(stream)];
  if (!fd.valid()) return;
  char bytes[65536];
  const Transfer got = read_some(fd.get(), bytes, sizeof(bytes));
  if (got.state == Transfer::State::moved) {
    router_->write(local, stream, std::string_view(bytes, got.bytes));
    if (reading_ && router_->congested()) set_reading(false);
  } else if (got.state != Transfer::State::would_block) {
    loop_->forget(fd.get());
    fd.reset();
    router_->end_of_stream(local, stream);
  }
}

void Shim::set_reading(bool reading) {
  if (reading == reading_) return;
  reading_ = reading;
  for (RankProcess& rank : ranks_) {
    for (UniqueFd& fd : rank.output) {
      if (fd.valid() && !loop_->set_interest(fd.get(), reading ? EventLoop::kRead : 0).is_ok()) fd.reset();
    }
  }
}

void Shim::on_rank_end(int local) {
  RankProcess& rank = ranks_[static_cast<std::size_t>(local)];
  if (rank.ended) return;
  const Result<ChildProcess::Poll> state = rank.child.poll();
  if (state.is_ok() && !state->ended) return;
  rank.ended = true;
  loop_->forget(rank.child.pidfd());
  // What it wrote last is in the pipes. Others may hold them open, so don't wait for their end.
  for (const OutputStream stream : {OutputStream::out, OutputStream::err}) {
    for (int i = 0; i < kLastReads && rank.output[static_cast<int>(stream)].valid(); ++i) read_output(local, stream);
  }
  ExitRecord::Entry& entry = record_.entries[static_cast<std::size_t>(local)];
  if (state.is_ok()) entry.exit = state->exit;
  entry.ended_wall_ms = system_clock().wall_ms();
  --running_;
  link_->send(message::RankExited{attempt_.epoch, rank.rank, entry.exit, router_->last_lines(local)});
  check_quiet();
}

// Collects orphans that ended. Ranks are left to their own descriptors, which become
// ready in the order in which the ranks ended. Returns whether any child is left.
bool Shim::reap() {
  return reap_children([this](Pid pid) {
    for (const RankProcess& rank : ranks_) {
      if (!rank.ended && rank.child.pid() == pid) return true;
    }
    return false;
  });
}

void Shim::check_quiet() {
  const bool any_left = reap();
  if (quiet_ || running_ > 0 || any_left) return;
  quiet_ = true;
  close_attempt();
  if (keep_recordings_) write_recordings();
  if (!job_.output_directory.empty()) {
    const Status written = record_.write(job_, attempt_);
    if (!written.is_ok()) {
      router_->notice("the exit record could not be written: " + written.to_string());
      lost_files_ = true;
    }
  }
  link_->send(message::Quiet{attempt_.epoch, lost_files_ || router_->lost_files()});
}

// All writers are gone: what the pipes still hold is the end of the output.
void Shim::close_attempt() {
  for (std::size_t local = 0; local < ranks_.size(); ++local) {
    for (const OutputStream stream : {OutputStream::out, OutputStream::err}) {
      UniqueFd& fd = ranks_[local].output[static_cast<int>(stream)];
      for (int i = 0; i < kLastReads && fd.valid() && input_ready(fd.get()); ++i) {
        read_output(static_cast<int>(local), stream);
      }
      if (!fd.valid()) continue;
      loop_->forget(fd.get());
      fd.reset();
      router_->end_of_stream(static_cast<int>(local), stream);
    }
  }
  stdin_->begin_attempt();
}

void Shim::on(const message::SignalRanks& signal) {
  if (signal.epoch != attempt_.epoch) return;
  for (RankProcess& rank : ranks_) {
    // One that ended in this moment needs no signal.
    if (!rank.ended) static_cast<void>(rank.child.send_signal(signal.signal));
  }
}

void Shim::on(const message::SignalLeftovers& signal) {
  if (signal.epoch != attempt_.epoch || quiet_) return;
  signal_processes(descendants_of(current_pid()), signal.signal);
}

void Shim::on(const message::KillAll& kill) {
  if (kill.epoch != attempt_.epoch || quiet_) return;
  killing_ = true;
  kill_until_quiet();
}

void Shim::kill_until_quiet() {
  if (quiet_ || !killing_) return;
  kill_descendants(current_pid());
  check_quiet();
  if (!quiet_) loop_->after_ms(kKillAgainMs, [this] { kill_until_quiet(); });
}

void Shim::on(const message::CollectRecordings& collect) {
  if (collect.epoch != attempt_.epoch) return;
  keep_recordings_ = true;
  message::Recordings recordings{attempt_.epoch, {}};
  for (std::size_t local = 0; local < ranks_.size(); ++local) {
    recordings.views.push_back(rank_view_to_json(view_rank(job_, ranks_[local], record_.entries[local])));
  }
  link_->send(recordings);
}

void Shim::write_recordings() {
  const Status written = write_recorders(job_, attempt_, ranks_);
  if (!written.is_ok()) router_->notice("the flight recorders could not be written: " + written.to_string());
}

// On a thread of its own; a job runs without metrics rather than not at all.
void Shim::export_metrics() {
  MetricsOptions options = metrics_options_from_environment(-1, job_.world_size, 0);
  if (!options.wanted()) return;
  auto exporter = MetricsExporter::start(std::move(options), [set = recorders_] { return metrics_text(set->read()); });
  if (!exporter.is_ok()) return router_->notice("no metrics are exported: " + exporter.status().to_string());
  exporter_ = *std::move(exporter);
  if (const std::string url = exporter_->url(); !url.empty()) router_->notice("metrics at " + url);
}

void Shim::on(const message::Notice& notice) {
  router_->notice(notice.text);
}

void Shim::on(const message::Shutdown&) {
  shutdown_ = true;
  if (router_->flushed()) done_ = true;
}

}  // namespace trireme
