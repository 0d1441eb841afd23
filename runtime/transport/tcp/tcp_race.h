// The first part of connecting: all of a peer's addresses are tried at once, and the best
// of those that answer with a challenge is taken. An address that would be better is
// waited for a little longer than the first answer took, so that a black hole costs
// milliseconds, not a connection timeout.
// Thread safety: the service thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/api/reactor.h"
#include "runtime/transport/tcp/tcp_candidates.h"

namespace trireme {

struct TcpRaceOptions {
  // Local addresses that may be used; empty: any.
  std::vector<std::string> local_hosts;
  std::uint64_t patience_ms = 500;
};

class TcpRace : public std::enable_shared_from_this<TcpRace> {
 public:
  struct Winner {
    UniqueFd fd;
    std::string challenge;
    double answer_us = 0;  // From the start of the attempt to its challenge.
  };
  // Called once: with the winner and its candidate, or with none when nothing answered in
  // time. The race's report() says what each address did. Until then the service thread
  // keeps the race, and the race keeps what `done` holds.
  using Done = std::function<void(const TcpRace& race, const TcpCandidate* taken, Winner* winner)>;

  TcpRace(std::shared_ptr<Reactor> reactor, std::vector<TcpCandidate> candidates, TcpRaceOptions options, Done done);
  void start();
  // "10.1.0.2:41 (eth1): no answer in 51 ms"; one line per address but the winner's.
  std::vector<std::string> report() const;

 private:
  enum class State { pending, answered, failed };
  struct Attempt {
    State state = State::pending;
    UniqueFd fd;
    Reactor::Token token = 0;
    bool connected = false;
    std::string challenge;
    double answer_us = 0;
    std::string reason;
  };

  Status begin(std::size_t index);
  void on_ready(std::size_t index);
  // True when the challenge is complete.
  Result<bool> advance(Attempt& attempt);
  Status check_local(int fd) const;
  void fail(std::size_t index, const Status& why);
  void decide(bool time_is_up);
  void finish(std::size_t winner);
  std::size_t best(State state) const;
  double elapsed_us() const;

  std::shared_ptr<Reactor> reactor_;
  std::vector<TcpCandidate> candidates_;
  TcpRaceOptions options_;
  Done done_;
  std::vector<Attempt> attempts_;
  std::uint64_t started_ns_ = 0;
  bool settling_ = false;
  bool over_ = false;
};

}  // namespace trireme
