// CoordinatorState: the decisions of a job's coordinator, as a deterministic machine.
//
// An event goes in, actions come out; there is no clock, thread, socket or randomness
// inside, so a test can replay any history. A job is a sequence of attempts, each with
// an epoch; an attempt goes through these phases:
//
//   running     no rank has failed
//   settling    one has: the others may find out and say so themselves
//   ending      the others were told to end (SIGTERM, or the user's signal)
//   killing     the grace is over: SIGKILL for everything
//   leftovers   the ranks are gone; what they left behind is told to end
//
// and ends when the shim says Quiet. Then the job finishes, or a failure that the budget
// covers begins the next attempt with epoch + 1. Invariants:
//   - Events of another epoch than the current one change nothing and cause nothing.
//   - Every attempt that failed is followed by a counted restart, or by Finish.
//   - In every phase but finished either an answer of the shim or a timer is pending,
//     unless the ranks themselves are running.
//   - Finish comes exactly once, last.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "launcher/coordinator/job_record.h"
#include "launcher/protocol/messages.h"

namespace trireme {

struct CoordinatorOptions {
  int world_size = 1;
  std::string host;  // For messages to people.
  int max_restarts = 0;
  std::uint64_t settle_ms = 2'000;    // From the first failure to SIGTERM for the others.
  std::uint64_t grace_ms = 10'000;    // From SIGTERM to SIGKILL.
  std::uint64_t leftover_ms = 2'000;  // The same for what ranks leave behind, unless the job is being stopped.
  std::uint64_t give_up_ms = 10'000;  // From SIGKILL to giving up on processes that the kernel cannot end.
  std::uint64_t timeout_ms = 0;       // For the whole job; 0: none.
};

namespace event {
struct Begin {};
struct TimerFired {
  enum class Timer { settle, grace, leftovers, give_up, timeout };
  Timer timer;
  std::int64_t epoch;  // As armed.
};
// SIGINT, SIGTERM, SIGQUIT: the first asks, the second insists.
struct StopSignal {
  int signal;
};
// Any other signal, for the ranks.
struct UserSignal {
  int signal;
};
struct ShimLost {
  std::string reason;
};
}  // namespace event

using Event = std::variant<event::Begin, event::TimerFired, event::StopSignal, event::UserSignal, event::ShimLost,
                           message::RankStarted, message::StartFailed, message::RankExited, message::Recordings,
                           message::Quiet, message::OutputClosed>;

namespace action {
using Timer = event::TimerFired::Timer;
// The store refuses everything older from now on.
struct BeginEpoch {
  std::int64_t epoch;
};
// Come back with TimerFired{timer, epoch}. Timers are never cancelled: late ones are ignored.
struct ArmTimer {
  Timer timer;
  std::int64_t epoch;
  std::uint64_t delay_ms;
};
// Tell the other ranks, through the store.
struct AnnounceDeath {
  int rank;
  std::string reason;
};
struct Finish {
  int exit_code;
};
}  // namespace action

using Action = std::variant<action::BeginEpoch, action::ArmTimer, action::AnnounceDeath, action::Finish,
                            message::StartAttempt, message::SignalRanks, message::SignalLeftovers, message::KillAll,
                            message::CollectRecordings, message::Notice>;

class CoordinatorState {
 public:
  explicit CoordinatorState(CoordinatorOptions options) : options_(std::move(options)) {}

  // `now_ms` counts from the job's beginning and is only written into the record.
  std::vector<Action> handle(const Event& event, std::uint64_t now_ms);

  enum class Phase { idle, running, settling, ending, killing, leftovers, finished };
  Phase phase() const { return phase_; }
  std::int64_t epoch() const { return epoch_; }
  const JobRecord& record() const { return record_; }

 private:
  void on(const event::Begin&);
  void on(const event::TimerFired& fired);
  void on(const event::StopSignal& stop);
  void on(const event::UserSignal& user);
  void on(const event::ShimLost& lost);
  void on(const message::RankStarted& started);
  void on(const message::StartFailed& failed);
  void on(const message::RankExited& exited);
  void on(const message::Recordings& recordings);
  void on(const message::Quiet& quiet);
  void on(const message::OutputClosed& closed);

  template <typename A>
  void emit(A action) {
    actions_.emplace_back(std::in_place_type<A>, std::move(action));
  }
  void begin_attempt();
  void end_ranks(int signal);
  void kill_all();
  void first_failure(int rank);
  void collect_recordings();
  void rank_over();
  void finish_or_restart();
  bool may_restart() const;
  void finish();
  int outcome_code();
  bool stopping() const { return stop_signal_ != 0 || timed_out_; }
  AttemptRecord& attempt() { return record_.attempts.back(); }
  const AttemptRecord& attempt() const { return record_.attempts.back(); }
  // The rank of a message, or null when it is of another epoch or out of place.
  RankRecord* current(std::int64_t epoch, int rank);
  std::string name_of(int rank) const;

  CoordinatorOptions options_;
  Phase phase_ = Phase::idle;
  std::int64_t epoch_ = 0;
  std::uint64_t now_ms_ = 0;
  int running_ranks_ = 0;           // Not over yet, in this attempt.
  bool collected_ = false;          // The recordings of this attempt were asked for.
  std::vector<std::string> views_;  // What came of them.
  int stop_signal_ = 0;
  bool timed_out_ = false;
  JobRecord record_;
  std::vector<Action> actions_;
};

}  // namespace trireme
