// Drives a StoreState without sockets and checks its invariants on every action.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trireme/base/wire.h>

#include "runtime/rendezvous/store_state.h"

namespace trireme::store {

class StoreHarness {
 public:
  struct Client {
    bool open = true;
    bool member = false;
    int rank = -1;
    std::string hello_payload;
    std::string client_nonce;
    std::set<std::uint64_t> asked;  // Requests without an answer yet.
    std::vector<Frame> inbox;
    std::set<std::pair<std::uint64_t, int>> failures;  // Of the world, one for each culprit.
    int tables = 0;
  };

  explicit StoreHarness(int size, std::uint64_t death_notice_ms = 0)
      : size_(size), state_(config(size, death_notice_ms)) {}

  static StoreConfig config(int size, std::uint64_t death_notice_ms) {
    StoreConfig config;
    config.job_id = "job";
    config.secret = "secret";
    config.world_size = size;
    config.death_notice_ms = death_notice_ms;
    config.max_unproven_connections = 8;
    return config;
  }

  Hello hello(int rank) const {
    Hello hello;
    hello.job_id = "job";
    hello.world_size = static_cast<std::uint32_t>(size_);
    hello.epoch = epoch_;
    hello.rank = static_cast<std::uint32_t>(rank);
    hello.nonce = std::string(kNonceBytes, 'c');
    hello.host = "host";
    hello.host_identity = "identity";
    hello.pid = 1000 + rank;
    return hello;
  }

  ConnectionId connect() {
    const ConnectionId id = next_++;
    clients_[id] = {};
    apply([&](Actions& out) {
      state_.connected(id, "peer-" + std::to_string(id), std::string(kNonceBytes, 's'), now_ms, out);
    });
    return id;
  }
  void send(ConnectionId id, MessageType type, std::uint64_t request, std::string payload) {
    // All else of a member is answered, be it by an error.
    static const std::set<MessageType> kUnanswered = {MessageType::cancel, MessageType::activity_answer,
                                                      MessageType::report_failure, MessageType::notify};
    if (clients_[id].open && clients_[id].member && kUnanswered.count(type) == 0) clients_[id].asked.insert(request);
    apply([&](Actions& out) { state_.received(id, Frame{type, request, std::move(payload)}, now_ms, out); });
  }
  void send_hello(ConnectionId id, const Hello& hello) {
    clients_[id].hello_payload = hello.encode();
    clients_[id].client_nonce = hello.nonce;
    clients_[id].rank = static_cast<int>(hello.rank);
    send(id, MessageType::hello, 0, hello.encode());
  }
  void send_proof(ConnectionId id, const std::string& secret) {
    WireWriter writer;
    writer.bytes(make_proof(secret, ProofRole::client, clients_[id].client_nonce, std::string(kNonceBytes, 's'),
                            clients_[id].hello_payload));
    send(id, MessageType::proof, 0, writer.take());
  }
  ConnectionId join(int rank) { return join(hello(rank)); }
  ConnectionId join(const Hello& hello, const std::string& secret = "secret") {
    const ConnectionId id = connect();
    send_hello(id, hello);
    if (clients_[id].open) send_proof(id, secret);
    return id;
  }
  void disconnect(ConnectionId id) {
    clients_[id].open = false;
    apply([&](Actions& out) { state_.disconnected(id, now_ms, out); });
  }
  void malformed(ConnectionId id) {
    apply([&](Actions& out) { state_.malformed(id, invalid_argument("junk"), now_ms, out); });
  }
  void tick(std::uint64_t advance_ms) {
    now_ms += advance_ms;
    apply([&](Actions& out) { state_.tick(now_ms, out); });
    EXPECT_GT(state_.next_timer_ms().value_or(UINT64_MAX), now_ms) << "a timer that is due was not served";
  }
  void begin_epoch(std::int64_t epoch, int size) {
    std::vector<ConnectionId> old;
    for (const auto& [id, client] : clients_) {
      if (client.open && client.member) old.push_back(id);
    }
    apply([&](Actions& out) { state_.begin_epoch(epoch, size, out); });
    epoch_ = epoch;
    size_ = size;
    for (const ConnectionId id : old) {
      EXPECT_FALSE(clients_[id].open) << "a member of the old epoch is still connected";
      EXPECT_EQ(last_failure(id).status.code(), StatusCode::stale_epoch);
    }
  }
  void announce_death(int rank, const std::string& why) {
    apply([&](Actions& out) { state_.announce_death(rank, why, out); });
  }
  void close_all() {
    apply([&](Actions& out) { state_.close_all("end", out); });
    for (const auto& entry : clients_) EXPECT_FALSE(entry.second.open);
  }

  Failure last_failure(ConnectionId id) const {
    Failure failure;
    for (const Frame& frame : clients_.at(id).inbox) {
      if (frame.type == MessageType::failure) failure = decode_failure(frame.payload).value();
    }
    return failure;
  }
  // The reply to `request`, or a Status that says there is none.
  Result<std::string> reply(ConnectionId id, std::uint64_t request) const {
    for (const Frame& frame : clients_.at(id).inbox) {
      if (frame.type == MessageType::reply && frame.id == request) return decode_reply(frame.payload);
    }
    return unavailable("no reply");
  }
  Status refusal(ConnectionId id) const {
    for (const Frame& frame : clients_.at(id).inbox) {
      if (frame.type == MessageType::refused) return decode_status(frame.payload);
    }
    return Status::ok();
  }
  std::size_t count(ConnectionId id, MessageType type) const {
    std::size_t found = 0;
    for (const Frame& frame : clients_.at(id).inbox) found += frame.type == type ? 1 : 0;
    return found;
  }
  Client& client(ConnectionId id) { return clients_[id]; }
  std::map<ConnectionId, Client>& clients() { return clients_; }
  StoreState& state() { return state_; }
  int size() const { return size_; }
  std::int64_t epoch() const { return epoch_; }

  std::uint64_t now_ms = 1000;
  std::vector<std::string> log;
  std::vector<std::string> notes;

 private:
  template <typename Event>
  void apply(Event event) {
    Actions actions;
    event(actions);
    for (const Action& action : actions) carry_out(action);
    std::size_t members = 0;
    for (const auto& entry : clients_) members += entry.second.open && entry.second.member ? 1 : 0;
    EXPECT_EQ(state_.connected_members(), members);
  }

  void carry_out(const Action& action) {
    if (action.kind == Action::Kind::log) return log.push_back(action.text);
    if (action.kind == Action::Kind::notify) {
      return notes.push_back(std::to_string(action.rank) + " " + action.topic + " " + action.text);
    }
    ASSERT_TRUE(clients_.count(action.connection) == 1 && clients_[action.connection].open)
        << "an action on connection " << action.connection << ", which is closed";
    Client& client = clients_[action.connection];
    if (action.kind == Action::Kind::close) {
      client.open = false;
      return;
    }
    ASSERT_NE(action.payload, nullptr);
    if (action.type == MessageType::welcome) client.member = true;
    if (action.type == MessageType::reply) {
      EXPECT_EQ(client.asked.erase(action.id), 1u) << "request " << action.id << " was answered twice or never asked";
    }
    if (action.type == MessageType::table) {
      EXPECT_EQ(++client.tables, 1);
    }
    if (action.type == MessageType::failure) {
      const Failure failure = decode_failure(*action.payload).value();
      if (failure.status.code() != StatusCode::stale_epoch) {
        const int culprit = failure.context == 0 ? failure.culprit_rank : -1;
        EXPECT_TRUE(client.failures.emplace(failure.context, culprit).second) << "a context failed twice";
      }
    }
    client.inbox.push_back({action.type, action.id, *action.payload});
  }

  int size_;
  std::int64_t epoch_ = 1;
  StoreState state_;
  ConnectionId next_ = 1;
  std::map<ConnectionId, Client> clients_;
};

inline std::string encode_pair(std::string_view a, std::string_view b) {
  WireWriter writer;
  writer.bytes(a);
  writer.bytes(b);
  return writer.take();
}
inline std::string encode_text(std::string_view text) {
  WireWriter writer;
  writer.bytes(text);
  return writer.take();
}
inline std::string encode_add(std::string_view key, std::int64_t delta) {
  WireWriter writer;
  writer.bytes(key);
  writer.i64(delta);
  return writer.take();
}
inline std::string encode_exchange(std::string_view name, const std::vector<int>& members, std::string_view value) {
  WireWriter writer;
  writer.bytes(name);
  writer.u32(static_cast<std::uint32_t>(members.size()));
  for (const int member : members) writer.u32(static_cast<std::uint32_t>(member));
  writer.bytes(value);
  return writer.take();
}

}  // namespace trireme::store
