#include "launcher/coordinator/job_record.h"

namespace trireme {

bool RankRecord::failed() const {
  if (state == State::start_failed) return true;
  return state == State::ended && exit.shell_code() != 0 && exit.shell_code() != kYieldExitCode;
}

std::string RankRecord::describe() const {
  switch (state) {
    case State::not_started:
      return "not started";
    case State::running:
      return "running";
    case State::start_failed:
      return "could not be started: " + error;
    case State::ended:
      return exit.to_string();
  }
  return "";
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::running:
      return "running";
    case Outcome::succeeded:
      return "succeeded";
    case Outcome::failed:
      return "failed";
    case Outcome::yielded:
      return "yielded";
    case Outcome::stopped:
      return "stopped";
    case Outcome::timed_out:
      return "timed_out";
  }
  return "";
}

}  // namespace trireme
