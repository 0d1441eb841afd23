#include "launcher/coordinator/coordinator_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include <trireme/base/check.h>
#include <trireme/base/units.h>

#include "runtime/telemetry/api/inspect.h"

namespace trireme {

namespace {

// When something went wrong a call that stands still is a trace of it, however young; when
// a job is only told to stop, calls may well be under way.
constexpr VerdictOptions kAfterFailure{250};
constexpr VerdictOptions kWhenStopped{1000};

// What the flight recorders say; nothing when no rank has one to tell of.
JobVerdict judge_views(const std::vector<std::string>& texts, const VerdictOptions& options) {
  std::vector<RankView> views;
  bool any_joined = false;
  for (const std::string& text : texts) {
    Result<RankView> view = rank_view_from_json(text);
    if (!view.is_ok()) continue;  // Another build's shim.
    any_joined |= view->has_joined();
    views.push_back(*std::move(view));
  }
  return any_joined ? judge(views, options) : JobVerdict{};
}

}  // namespace

using Timer = event::TimerFired::Timer;

std::vector<Action> CoordinatorState::handle(const Event& event, std::uint64_t now_ms) {
  now_ms_ = now_ms;
  actions_.clear();
  if (phase_ != Phase::finished) std::visit([this](const auto& e) { on(e); }, event);
  return std::move(actions_);
}

void CoordinatorState::on(const event::Begin&) {
  TRIREME_CHECK(phase_ == Phase::idle, "a coordinator begins once");
  if (options_.timeout_ms > 0) emit(action::ArmTimer{Timer::timeout, 0, options_.timeout_ms});
  begin_attempt();
}

void CoordinatorState::begin_attempt() {
  ++epoch_;
  AttemptRecord next;
  next.attempt = static_cast<int>(record_.attempts.size());
  next.epoch = epoch_;
  next.started_at_ms = now_ms_;
  next.ranks.resize(static_cast<std::size_t>(options_.world_size));
  record_.attempts.push_back(std::move(next));
  running_ranks_ = options_.world_size;
  collected_ = false;
  views_.clear();
  phase_ = Phase::running;
  emit(action::BeginEpoch{epoch_});
  emit(message::StartAttempt{epoch_, attempt().attempt});
}

RankRecord* CoordinatorState::current(std::int64_t epoch, int rank) {
  if (phase_ == Phase::idle || epoch != epoch_ || rank < 0 || rank >= options_.world_size) return nullptr;
  RankRecord& record = attempt().ranks[static_cast<std::size_t>(rank)];
  return record.over() ? nullptr : &record;
}

std::string CoordinatorState::name_of(int rank) const {
  const RankRecord& record = attempt().ranks[static_cast<std::size_t>(rank)];
  if (record.pid == 0) return fmt::format("rank {} (host {})", rank, options_.host);
  return fmt::format("rank {} (host {}, pid {})", rank, options_.host, record.pid);
}

void CoordinatorState::on(const message::RankStarted& started) {
  RankRecord* record = current(started.epoch, started.rank);
  if (record == nullptr) return;
  record->pid = started.pid;
  record->state = RankRecord::State::running;
}

void CoordinatorState::on(const message::StartFailed& failed) {
  RankRecord* record = current(failed.epoch, failed.rank);
  if (record == nullptr) return;
  record->state = RankRecord::State::start_failed;
  record->error = failed.message;
  record->ended_at_ms = now_ms_;
  if (failed.is_cause && attempt().first_failure < 0) {
    attempt().first_failure = failed.rank;
    if (phase_ == Phase::running || phase_ == Phase::settling) end_ranks(SIGTERM);
  }
  rank_over();
}

void CoordinatorState::on(const message::RankExited& exited) {
  RankRecord* record = current(exited.epoch, exited.rank);
  if (record == nullptr) return;
  record->state = RankRecord::State::ended;
  record->exit = exited.exit;
  record->last_lines = exited.last_lines;
  record->ended_at_ms = now_ms_;
  const bool told = phase_ == Phase::ending || phase_ == Phase::killing;
  const bool killed = phase_ == Phase::killing && exited.exit.signal == SIGKILL;
  record->ended_by_launcher =
      told && exited.exit.signaled && (killed || exited.exit.signal == SIGTERM || exited.exit.signal == stop_signal_);
  if (record->failed() && attempt().first_failure < 0) first_failure(exited.rank);
  rank_over();
}

void CoordinatorState::first_failure(int rank) {
  attempt().first_failure = rank;
  const RankRecord& record = attempt().ranks[static_cast<std::size_t>(rank)];
  emit(action::AnnounceDeath{rank, record.describe()});  // The store adds who it was.
  collect_recordings();
  if (phase_ != Phase::running) return;
  phase_ = Phase::settling;
  emit(action::ArmTimer{Timer::settle, epoch_, options_.settle_ms});
}

// Once an attempt, while the ranks are still as the trouble left them.
void CoordinatorState::collect_recordings() {
  if (collected_ || record_.attempts.empty()) return;
  collected_ = true;
  emit(message::CollectRecordings{epoch_});
}

void CoordinatorState::on(const message::Recordings& recordings) {
  if (recordings.epoch != epoch_ || record_.attempts.empty()) return;
  views_.insert(views_.end(), recordings.views.begin(), recordings.views.end());
  attempt().verdict = judge_views(views_, attempt().first_failure >= 0 ? kAfterFailure : kWhenStopped);
}

// The last rank of the attempt is over: only what the ranks left behind remains.
void CoordinatorState::rank_over() {
  if (--running_ranks_ > 0) return;
  if (phase_ == Phase::killing) return;  // Everything has been killed already; Quiet comes.
  phase_ = Phase::leftovers;
  emit(message::SignalLeftovers{epoch_, SIGTERM});
  emit(message::SignalLeftovers{epoch_, SIGCONT});
  const std::uint64_t patience = stopping() ? options_.grace_ms : std::min(options_.grace_ms, options_.leftover_ms);
  emit(action::ArmTimer{Timer::leftovers, epoch_, patience});
}

void CoordinatorState::end_ranks(int signal) {
  phase_ = Phase::ending;
  emit(message::SignalRanks{epoch_, signal});
  // A stopped process acts on nothing but SIGKILL until it continues.
  emit(message::SignalRanks{epoch_, SIGCONT});
  emit(action::ArmTimer{Timer::grace, epoch_, options_.grace_ms});
}

void CoordinatorState::kill_all() {
  phase_ = Phase::killing;
  emit(message::KillAll{epoch_});
  emit(action::ArmTimer{Timer::give_up, epoch_, options_.give_up_ms});
}

void CoordinatorState::on(const event::TimerFired& fired) {
  if (fired.timer == Timer::timeout) {
    if (stopping()) return;
    timed_out_ = true;
    emit(message::Notice{"the job has run for " + format_duration_ms(options_.timeout_ms) + " (--timeout): ending it"});
    if (phase_ == Phase::running || phase_ == Phase::settling) {
      collect_recordings();
      end_ranks(SIGTERM);
    }
    return;
  }
  if (fired.epoch != epoch_) return;
  if (fired.timer == Timer::settle && phase_ == Phase::settling) return end_ranks(SIGTERM);
  if (fired.timer == Timer::grace && phase_ == Phase::ending) return kill_all();
  if (fired.timer == Timer::leftovers && phase_ == Phase::leftovers) return kill_all();
  if (fired.timer == Timer::give_up && phase_ == Phase::killing) {
    emit(
        message::Notice{"some processes of the job could not be killed (waiting in the kernel, or "
                        "owned by another user): giving up on them"});
    finish();
  }
}

void CoordinatorState::on(const event::StopSignal& stop) {
  if (stop_signal_ != 0) {
    if (phase_ == Phase::killing) return;
    emit(message::Notice{"asked to stop again: killing all ranks"});
    return kill_all();
  }
  stop_signal_ = stop.signal;
  emit(message::Notice{fmt::format("received {}: telling the ranks, and killing what is left after {}",
                                   signal_name(stop.signal), format_duration_ms(options_.grace_ms))});
  if (phase_ == Phase::running) collect_recordings();
  if (phase_ == Phase::running || phase_ == Phase::settling || phase_ == Phase::ending) end_ranks(stop.signal);
}

void CoordinatorState::on(const event::UserSignal& user) {
  if (phase_ == Phase::leftovers || phase_ == Phase::killing) return;
  emit(message::SignalRanks{epoch_, user.signal});
}

void CoordinatorState::on(const message::OutputClosed& closed) {
  if (stopping()) return;
  stop_signal_ = SIGPIPE;
  emit(
      message::Notice{fmt::format("standard output cannot be written any more ({}): ending the job (with "
                                  "--output-dir it would go on)",
                                  closed.reason)});
  if (phase_ == Phase::running || phase_ == Phase::settling) end_ranks(SIGTERM);
}

void CoordinatorState::on(const event::ShimLost& lost) {
  record_.lost = lost.reason;
  finish();
}

void CoordinatorState::on(const message::Quiet& quiet) {
  record_.lost_files |= quiet.lost_files;
  if (quiet.epoch != epoch_ || running_ranks_ > 0) return;
  finish_or_restart();
}

bool CoordinatorState::may_restart() const {
  const int culprit = attempt().first_failure;
  if (culprit < 0 || stopping() || record_.restarts >= options_.max_restarts) return false;
  const RankRecord& record = attempt().ranks[static_cast<std::size_t>(culprit)];
  // The same call would fail the same way.
  return record.state == RankRecord::State::ended && record.exit.shell_code() != kUsageExitCode;
}

void CoordinatorState::finish_or_restart() {
  attempt().ended_at_ms = now_ms_;
  if (!may_restart()) return finish();
  ++record_.restarts;
  const int culprit = attempt().first_failure;
  emit(message::Notice{fmt::format("{} ended: {}. Starting all {} ranks again: attempt {}, epoch {} (restart {} of {})",
                                   name_of(culprit), attempt().ranks[static_cast<std::size_t>(culprit)].describe(),
                                   options_.world_size, attempt().attempt + 1, epoch_ + 1, record_.restarts,
                                   options_.max_restarts)});
  begin_attempt();
}

int CoordinatorState::outcome_code() {
  record_.stop_signal = stop_signal_;
  record_.outcome = timed_out_ ? Outcome::timed_out : stop_signal_ != 0 ? Outcome::stopped : Outcome::failed;
  if (timed_out_) return kTimeoutExitCode;
  const int stopped_code = stop_signal_ != 0 ? 128 + stop_signal_ : 1;
  if (!record_.lost.empty() || record_.attempts.empty() || running_ranks_ > 0) return stopped_code;
  const AttemptRecord& last = attempt();
  if (last.first_failure >= 0) {
    const RankRecord& culprit = last.ranks[static_cast<std::size_t>(last.first_failure)];
    if (culprit.state == RankRecord::State::start_failed) return kUsageExitCode;
    const bool killed_by_us = culprit.ended_by_launcher && culprit.exit.signal == SIGKILL;
    return stop_signal_ != 0 && killed_by_us ? stopped_code : culprit.exit.shell_code();
  }
  const auto yielded = [](const RankRecord& rank) { return rank.exit.shell_code() == kYieldExitCode; };
  if (std::any_of(last.ranks.begin(), last.ranks.end(), yielded)) {
    record_.outcome = Outcome::yielded;
    return kYieldExitCode;
  }
  if (stop_signal_ == 0) record_.outcome = Outcome::succeeded;
  return 0;
}

void CoordinatorState::finish() {
  phase_ = Phase::finished;
  if (!record_.attempts.empty() && attempt().ended_at_ms == 0) attempt().ended_at_ms = now_ms_;
  record_.exit_code = outcome_code();
  if (record_.exit_code == 0 && record_.lost_files) record_.exit_code = 1;
  emit(action::Finish{record_.exit_code});
}

}  // namespace trireme
