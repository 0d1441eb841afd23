// StoreState: every decision of the store, as a deterministic state machine.
//
// Events go in (a connection opened, a frame arrived, time passed, a process died) and
// actions come out (send, close, log, notify). There is no socket, clock, thread or
// random number inside: time and nonces are arguments, so that any history replays.
// StoreServer feeds it; the tests feed it from a seed.
//
// Invariants: a request is answered at most once; nothing is sent to a connection after
// its close; a connection that has not proved the secret changes nothing but the note
// that describe_membership shows. Each message costs time in proportion to its own bytes
// and to the messages it causes.
// Thread safety: none; one caller at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <trireme/rendezvous/world.h>
#include <trireme/telemetry/log.h>

#include "runtime/rendezvous/protocol.h"

namespace trireme::store {

using ConnectionId = std::uint64_t;  // Never reused.

struct Action {
  enum class Kind { send, close, log, notify };
  static Action log_line(LogLevel level, std::string text);
  static Action send_to(ConnectionId connection, MessageType type, std::uint64_t id, std::string payload);

  Kind kind = Kind::send;
  ConnectionId connection = 0;                 // send, close
  MessageType type{};                          // send
  std::uint64_t id = 0;                        // send
  std::shared_ptr<const std::string> payload;  // send; shared among the recipients of a broadcast
  bool droppable = false;                      // send: may be left out when the peer does not read
  LogLevel level = LogLevel::info;             // log
  int rank = -1;                               // notify
  std::string topic;                           // notify
  std::string text;                            // log: the line; notify: the value
};
using Actions = std::vector<Action>;

struct StoreConfig {
  std::string job_id;
  std::string secret;
  int world_size = 0;  // 0: what the first rank says that proves the secret.
  std::int64_t epoch = 1;
  int host_rank = -1;
  std::uint64_t death_notice_ms = 0;
  std::uint64_t handshake_timeout_ms = 10'000;
  std::size_t max_unproven_connections = 1024;
};

class StoreState {
 public:
  explicit StoreState(StoreConfig config);

  // `peer` is an address for people; `nonce` kNonceBytes of fresh randomness.
  void connected(ConnectionId connection, std::string peer, std::string nonce, std::uint64_t now_ms, Actions& out);
  void received(ConnectionId connection, const Frame& frame, std::uint64_t now_ms, Actions& out);
  // The byte stream is not what it must be (junk, oversize).
  void malformed(ConnectionId connection, const Status& reason, std::uint64_t now_ms, Actions& out);
  void disconnected(ConnectionId connection, std::uint64_t now_ms, Actions& out);
  void tick(std::uint64_t now_ms, Actions& out);
  // When tick() next has something to do.
  std::optional<std::uint64_t> next_timer_ms() const;

  void begin_epoch(std::int64_t epoch, int world_size, Actions& out);
  void announce_death(int rank, std::string_view reason, Actions& out);
  // The store ends in order: members are told, all connections closed.
  void close_all(std::string_view reason, Actions& out);

  std::string describe_membership(std::uint64_t now_ms) const;
  std::size_t connected_members() const { return connected_members_; }
  // Whether the connection has proved the secret and not been closed.
  bool is_member(ConnectionId connection) const;

 private:
  struct Pending {
    enum class Kind { get, exchange, activity } kind;
    std::string key;          // get, exchange
    std::uint64_t round = 0;  // activity
  };
  struct Connection {
    enum class Phase { greeting, proving, member } phase = Phase::greeting;
    std::string peer;
    std::string nonce;
    Hello hello;
    std::string hello_payload;
    std::unordered_map<std::uint64_t, Pending> pending;  // By request id.
    std::size_t queries = 0;
  };
  struct Member {
    enum class State { missing, joined, lost, left, dead } state = State::missing;
    ConnectionId connection = 0;
    PeerInfo info;
    std::uint64_t last_contact_ms = 0;
    std::string note;     // Where from, and why refused; "" when never heard from.
    bool blamed = false;  // A failure of the world names it, and all were told.
  };
  struct Waiter {
    ConnectionId connection = 0;
    std::uint64_t id = 0;
  };
  struct Exchange {
    std::string name;
    std::vector<int> members;
    std::unordered_map<int, std::size_t> position;
    std::vector<std::optional<std::string>> values;
    std::vector<std::optional<Waiter>> waiters;
    std::size_t missing = 0;
    std::size_t bytes = 0;
    bool survivors = false;  // Who is gone is left out, instead of ending it.
  };
  // One question to all ranks what they do, and whoever wants to know.
  struct Round {
    bool begun = false;
    std::vector<Waiter> askers;
    std::vector<bool> awaited;  // By rank.
    std::size_t missing = 0;
    std::string parts;             // What came and is not passed on yet,
    std::uint32_t part_count = 0;  // so many,
    std::uint64_t pass_on_ms = 0;  // and when it will be; 0: there is nothing.
  };

  // Handshake: store_handshake.cc
  void on_hello(ConnectionId connection, const Frame& frame, std::uint64_t now_ms, Actions& out);
  void on_proof(ConnectionId connection, const Frame& frame, std::uint64_t now_ms, Actions& out);
  Status admissible(const Hello& hello) const;
  void refuse(ConnectionId connection, const Status& why, std::uint64_t now_ms, Actions& out);

  // Membership: store_state.cc
  void drop(ConnectionId connection, Actions& out);
  void forget_connection(ConnectionId connection);
  void send_table_when_complete(Actions& out);
  void lose_member(int rank, std::uint64_t now_ms, Actions& out);
  void declare_dead(int rank, std::string_view reason, Actions& out);
  void raise(const Failure& failure, Actions& out);
  void broadcast(MessageType type, std::uint64_t id, std::string payload, Actions& out);
  std::string describe(int rank) const;
  std::string list_members(const std::vector<int>& ranks) const;

  // Requests of members: store_requests.cc
  void on_request(ConnectionId connection, const Frame& frame, Actions& out);
  Status on_put(const Frame& frame, Actions& out);
  Status on_get(ConnectionId connection, const Frame& frame, Actions& out);
  Status on_add(ConnectionId connection, const Frame& frame, Actions& out);
  Status on_exchange(ConnectionId connection, const Frame& frame, Actions& out);
  Result<Exchange*> find_or_open_exchange(const std::string& key, std::string name, std::vector<int> members,
                                          bool survivors);
  void complete_exchange(const std::string& key, Actions& out);
  void on_cancel(ConnectionId connection, const Frame& frame, Actions& out);
  void forget_pending(ConnectionId connection, const Pending& pending, std::uint64_t id);
  void reply(const Waiter& to, const Status& status, std::string_view result, Actions& out);

  // Who does what: store_activities.cc
  void on_query(ConnectionId connection, const Frame& frame, Actions& out);
  void on_answer(ConnectionId connection, const Frame& frame, Actions& out);
  void answer_unknown(int rank, Actions& out);
  void begin_round(std::uint64_t number, std::uint64_t now_ms, Actions& out);
  void pass_on(Round& round, Actions& out) const;
  void end_round(std::uint64_t number, Actions& out);
  void forget_question(ConnectionId connection, std::uint64_t round, std::uint64_t id);
  void tick_rounds(std::uint64_t now_ms, Actions& out);

  // Departures: store_departures.cc
  void on_leave(ConnectionId connection, const Frame& frame, Actions& out);
  // Why a wait is in vain: the failure of the world when there is one, else `absence`.
  Status gone(std::string absence) const;
  // What others wait for from a rank that is gone will never come.
  void release_waits_for(int rank, Actions& out);

  StoreConfig config_;
  std::unordered_map<ConnectionId, Connection> connections_;
  std::deque<std::pair<std::uint64_t, ConnectionId>> handshake_timers_;
  std::deque<std::pair<std::uint64_t, int>> death_timers_;
  std::size_t unproven_ = 0;

  std::vector<Member> members_;
  std::size_t joined_ = 0;             // Ranks that have joined this epoch, whatever became of them.
  std::size_t active_ = 0;             // Ranks neither left nor dead.
  std::size_t connected_members_ = 0;  // Connections in phase member.
  bool table_sent_ = false;
  bool closed_ = false;
  std::unordered_map<std::uint64_t, Failure> failures_;  // The first of each context.

  std::unordered_map<std::string, std::string> values_;
  std::size_t value_bytes_ = 0;
  std::unordered_map<std::string, std::int64_t> counters_;
  std::unordered_map<std::string, std::vector<Waiter>> get_waiters_;
  std::unordered_map<std::string, Exchange> exchanges_;
  std::map<std::uint64_t, Round> rounds_;  // Only the last may not have begun.
  std::uint64_t next_round_ = 1;
  std::uint64_t next_round_ms_ = 0;  // None begins earlier.
};

}  // namespace trireme::store
