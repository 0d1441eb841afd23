// The coordinator's machine, against a model of a shim that does everything a real one
// may do, in any order, with signals, timers and stale reports in between.
#include "launcher/coordinator/coordinator_state.h"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <memory>
#include <random>

namespace trireme {
namespace {

using Timer = event::TimerFired::Timer;

template <typename T>
std::vector<T> of_kind(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (const T* match = std::get_if<T>(&action)) found.push_back(*match);
  }
  return found;
}

ExitState code(int value) {
  ExitState exit;
  exit.code = value;
  return exit;
}

ExitState by_signal(int signal) {
  ExitState exit;
  exit.signaled = true;
  exit.signal = signal;
  return exit;
}

// One history of one job, driven by a seed.
class Simulation {
 public:
  explicit Simulation(std::uint32_t seed) : random_(seed) {
    options_.world_size = 1 + static_cast<int>(random_() % 5);
    options_.max_restarts = static_cast<int>(random_() % 4);
    options_.timeout_ms = random_() % 4 == 0 ? 1'000 : 0;
    stop_probability_ = random_() % 3 == 0 ? 3 : 0;
    unkillable_ = random_() % 20 == 0;
    state_ = std::make_unique<CoordinatorState>(options_);
  }

  void run() {
    feed(event::Begin{});
    for (int step = 0; !finished_; ++step) {
      ASSERT_LT(step, 10'000) << "no end in sight";
      if (random_() % 4 == 0) disturb();
      if (!finished_ && !advance()) {
        FAIL() << "stuck in phase " << static_cast<int>(state_->phase());
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    check_end();
  }

 private:
  struct ModelRank {
    bool over = false;
    bool doomed = false;  // Told to end by a signal it obeys.
    int signal = 0;
  };

  std::size_t pick(std::size_t count) { return random_() % count; }

  void feed(const Event& event) {
    const std::vector<Action> actions = state_->handle(event, ++now_);
    for (const Action& action : actions) {
      ASSERT_FALSE(finished_) << "an action after Finish";
      std::visit([this](const auto& a) { apply(a); }, action);
    }
  }

  void apply(const action::BeginEpoch& begin) {
    ASSERT_EQ(begin.epoch, epoch_ + 1);
    epoch_ = begin.epoch;
  }
  void apply(const message::StartAttempt& start) {
    ASSERT_EQ(start.epoch, epoch_);
    ASSERT_EQ(start.attempt, starts_);
    ++starts_;
    ASSERT_TRUE(starts_ == 1 || failed_) << "a restart without a failure";
    failed_ = false;
    killed_ = quiet_sent_ = false;
    leftovers_ = random_() % 3 == 0;
    obeys_ = random_() % 4 != 0;
    ranks_.assign(static_cast<std::size_t>(options_.world_size), {});
    start_reports(start.epoch);
  }
  void start_reports(std::int64_t epoch) {
    const bool fails = random_() % 15 == 0;
    const int failing = static_cast<int>(pick(ranks_.size()));
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (fails && rank >= failing) {
        ranks_[static_cast<std::size_t>(rank)].over = true;
        pending_.push_back(message::StartFailed{epoch, rank, rank == failing, "cannot start"});
      } else {
        pending_.push_back(message::RankStarted{epoch, rank, 100 + rank});
      }
    }
  }
  void apply(const message::SignalRanks& signal) {
    ASSERT_EQ(signal.epoch, epoch_) << "a signal for an old epoch";
    if (signal.signal == SIGCONT || signal.signal == SIGUSR1 || !obeys_) return;
    for (ModelRank& rank : ranks_) {
      rank.doomed = true;
      rank.signal = signal.signal;
    }
  }
  void apply(const message::SignalLeftovers& signal) {
    ASSERT_EQ(signal.epoch, epoch_);
    if (obeys_ && signal.signal == SIGTERM) leftovers_ = false;
  }
  void apply(const message::KillAll& kill) {
    ASSERT_EQ(kill.epoch, epoch_);
    killed_ = true;
    if (!unkillable_) leftovers_ = false;
    for (ModelRank& rank : ranks_) {
      rank.doomed = true;
      rank.signal = SIGKILL;
    }
  }
  void apply(const action::ArmTimer& arm) {
    ASSERT_TRUE(arm.epoch == epoch_ || arm.timer == Timer::timeout);
    timers_.push_back({arm.timer, arm.epoch});
  }
  void apply(const action::AnnounceDeath& death) {
    ASSERT_GE(death.rank, 0);
    failed_ = true;
  }
  void apply(const message::CollectRecordings& collect) {
    ASSERT_EQ(collect.epoch, epoch_);
    ASSERT_NE(collected_, epoch_) << "asked for twice";
    collected_ = epoch_;
    pending_.push_back(message::Recordings{epoch_, {"no view of a rank"}});
  }
  void apply(const message::Notice&) {}
  void apply(const action::Finish& finish) {
    finished_ = true;
    exit_code_ = finish.exit_code;
  }

  // Something that need not happen: signals, stale and repeated reports.
  void disturb() {
    if (random_() % 100 < static_cast<std::uint32_t>(stop_probability_)) feed(event::StopSignal{SIGINT});
    if (finished_) return;
    if (random_() % 10 == 0) feed(event::UserSignal{SIGUSR1});
    if (random_() % 400 == 0) feed(message::OutputClosed{"gone"});
    if (finished_ || epoch_ < 2) return;
    const std::int64_t old = 1 + static_cast<std::int64_t>(pick(static_cast<std::size_t>(epoch_ - 1)));
    const int rank = static_cast<int>(pick(ranks_.size()));
    for (const Event& stale : std::vector<Event>{
             message::RankExited{old, rank, code(1), {}}, message::Quiet{old}, message::RankStarted{old, rank, 9},
             event::TimerFired{Timer::grace, old}, message::StartFailed{old, rank, true, "late"}}) {
      ASSERT_TRUE(state_->handle(stale, ++now_).empty()) << "an old epoch had an effect";
    }
  }

  // One thing that can happen next; false when nothing can.
  bool advance() {
    std::vector<std::function<void()>> choices;
    if (!pending_.empty()) {
      choices.push_back([this] {
        const Event event = pending_.front();
        pending_.erase(pending_.begin());
        if (std::holds_alternative<message::StartFailed>(event)) failed_ = true;
        feed(event);
      });
    } else {
      add_rank_choices(choices);
    }
    for (std::size_t i = 0; i < timers_.size(); ++i) {
      choices.push_back([this, i] {
        const event::TimerFired fired = timers_[i];
        timers_.erase(timers_.begin() + static_cast<std::ptrdiff_t>(i));
        feed(fired);
      });
    }
    if (choices.empty()) return false;
    choices[pick(choices.size())]();
    return true;
  }

  void add_rank_choices(std::vector<std::function<void()>>& choices) {
    bool all_over = true;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].over) continue;
      if (unkillable_ && i == 0 && killed_) {
        all_over = false;
        continue;
      }
      all_over = false;
      choices.push_back([this, i] { end_rank(i); });
    }
    if (all_over && !leftovers_ && !quiet_sent_) {
      choices.push_back([this] {
        quiet_sent_ = true;
        feed(message::Quiet{epoch_});
      });
    }
  }

  void end_rank(std::size_t i) {
    ranks_[i].over = true;
    const int codes[] = {0, 0, 0, 0, 1, 2, 75, 139};
    const ExitState exit = ranks_[i].doomed ? by_signal(ranks_[i].signal) : code(codes[pick(8)]);
    if (exit.shell_code() != 0 && exit.shell_code() != 75) failed_ = true;
    feed(message::RankExited{epoch_, static_cast<int>(i), exit, {}});
  }

  void check_end() {
    const JobRecord& record = state_->record();
    EXPECT_EQ(record.exit_code, exit_code_);
    EXPECT_EQ(record.restarts, starts_ - 1);
    EXPECT_LE(record.restarts, options_.max_restarts);
    EXPECT_EQ(record.attempts.size(), static_cast<std::size_t>(starts_));
    EXPECT_EQ(state_->phase(), CoordinatorState::Phase::finished);
    EXPECT_NE(record.outcome, Outcome::running);
    if (record.outcome == Outcome::succeeded) {
      EXPECT_EQ(exit_code_, 0);
      EXPECT_FALSE(failed_);
    }
    EXPECT_TRUE(record.outcome != Outcome::failed || exit_code_ != 0);
    EXPECT_TRUE(state_->handle(event::StopSignal{SIGTERM}, ++now_).empty());
  }

  std::mt19937 random_;
  CoordinatorOptions options_;
  std::unique_ptr<CoordinatorState> state_;
  std::uint64_t now_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t collected_ = 0;  // The epoch whose recordings were asked for.
  int starts_ = 0;
  int stop_probability_ = 0;
  bool unkillable_ = false;
  bool failed_ = false;
  bool killed_ = false;
  bool leftovers_ = false;
  bool obeys_ = true;
  bool quiet_sent_ = false;
  bool finished_ = false;
  int exit_code_ = -1;
  std::vector<ModelRank> ranks_;
  std::vector<Event> pending_;
  std::vector<event::TimerFired> timers_;
};

TEST(CoordinatorState, HoldsItsInvariantsInAnyHistory) {
  for (std::uint32_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run();
    if (HasFailure()) return;
  }
}

CoordinatorState begun(CoordinatorOptions options) {
  CoordinatorState state(options);
  static_cast<void>(state.handle(event::Begin{}, 0));
  for (int rank = 0; rank < options.world_size; ++rank) {
    static_cast<void>(state.handle(message::RankStarted{1, rank, 100 + rank}, 1));
  }
  return state;
}

TEST(CoordinatorState, AFailureIsAnnouncedAtOnceAndOthersGetTimeToSpeak) {
  CoordinatorOptions options;
  options.world_size = 3;
  CoordinatorState state = begun(options);
  auto actions = state.handle(message::RankExited{1, 2, by_signal(SIGKILL), {}}, 5);
  ASSERT_EQ(of_kind<action::AnnounceDeath>(actions).size(), 1U);
  EXPECT_EQ(of_kind<action::AnnounceDeath>(actions)[0].rank, 2);
  EXPECT_TRUE(of_kind<message::SignalRanks>(actions).empty());
  actions = state.handle(event::TimerFired{Timer::settle, 1}, 6);
  EXPECT_EQ(of_kind<message::SignalRanks>(actions).at(0).signal, SIGTERM);
  actions = state.handle(event::TimerFired{Timer::grace, 1}, 7);
  EXPECT_EQ(of_kind<message::KillAll>(actions).size(), 1U);
}

TEST(CoordinatorState, ALostShimFailsTheJob) {
  CoordinatorOptions options;
  options.world_size = 2;
  options.max_restarts = 5;
  CoordinatorState state = begun(options);
  const auto actions = state.handle(event::ShimLost{"gone"}, 9);
  ASSERT_EQ(of_kind<action::Finish>(actions).size(), 1U);
  EXPECT_EQ(of_kind<action::Finish>(actions)[0].exit_code, 1);
  EXPECT_EQ(state.record().lost, "gone");
}

TEST(CoordinatorState, AYieldOfAllRanksIsNoFailure) {
  CoordinatorOptions options;
  options.world_size = 2;
  options.max_restarts = 1;
  CoordinatorState state = begun(options);
  EXPECT_TRUE(of_kind<action::AnnounceDeath>(state.handle(message::RankExited{1, 0, code(75), {}}, 2)).empty());
  static_cast<void>(state.handle(message::RankExited{1, 1, code(75), {}}, 3));
  const auto actions = state.handle(message::Quiet{1}, 4);
  ASSERT_EQ(of_kind<action::Finish>(actions).size(), 1U);
  EXPECT_EQ(of_kind<action::Finish>(actions)[0].exit_code, kYieldExitCode);
  EXPECT_EQ(state.record().outcome, Outcome::yielded);
}

}  // namespace
}  // namespace trireme
