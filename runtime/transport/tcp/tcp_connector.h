// The connecting side of the handshake: finds the best of a peer's addresses that answers
// (tcp_race.h), proves membership, and attaches the socket to the connection.
//
// A round of attempts lasts half a second, later ones longer; a rank that is stopped may
// take as long as kGiveUpMs. Once the hello is sent nothing is tried beside it, so that
// one stream makes one connection.
// Thread safety: start() from any thread; the rest runs on the service thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/api/peer_watch.h"
#include "runtime/transport/api/reactor.h"
#include "runtime/transport/tcp/tcp_connection.h"
#include "runtime/transport/tcp/tcp_race.h"

namespace trireme {

struct TcpTarget {
  std::string peer;  // "rank 3 (node1, pid 4711)", for messages.
  int rank = 0;
  std::string token;
  std::vector<TcpCandidate> candidates;  // Best first; at least one.
  std::string known_host;                // By which the peer's host was reached before: alone in the first round.
  std::vector<std::string> excluded;     // Addresses that are not tried, and why.
  std::vector<std::string> local_hosts;  // Which may be used; empty: any.
  TcpHello hello;
  // Decides the number of streams, for stream 0: from the local address and the time the
  // peer took to answer. Empty: hello.streams is right.
  std::function<unsigned(const TcpCandidate& candidate, const std::string& local_host, double answer_us)>
      choose_streams;
};

// How a peer was reached, for explain() and for the next connection.
struct TcpReached {
  std::string address;
  std::string text;  // "10.0.0.2:4711 over eth0: answered in 0.2 ms; ..."
};

class TcpConnector : public std::enable_shared_from_this<TcpConnector> {
 public:
  TcpConnector(std::shared_ptr<Reactor> reactor, std::shared_ptr<PeerWatch> peers, TcpTarget target,
               std::shared_ptr<TcpConnection> connection, std::function<void(const TcpReached&)> on_reached);
  void start();

 private:
  static constexpr std::uint64_t kGiveUpMs = 60'000;

  void start_round();
  std::vector<TcpCandidate> round_candidates() const;
  void on_race_over(const TcpRace& race, const TcpCandidate* taken, TcpRace::Winner* winner);
  Status send_hello(TcpRace::Winner& winner);
  void on_welcome();
  // True when the welcome is complete and right.
  Result<bool> receive_welcome();
  void finish();
  void try_again(const Status& why);
  Status give_up() const;
  std::string explain() const;

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<PeerWatch> peers_;
  TcpTarget target_;
  std::shared_ptr<TcpConnection> connection_;
  std::function<void(const TcpReached&)> on_reached_;
  Deadline give_up_at_;
  unsigned round_ = 0;
  std::vector<std::string> others_;  // What the other addresses did in the last round.
  std::string refusal_;              // Of the one that answered.
  TcpCandidate taken_;
  double answer_us_ = 0;
  UniqueFd fd_;
  Reactor::Token token_ = 0;
  std::string challenge_;
  std::string sent_hello_;
  std::string received_;
};

}  // namespace trireme
