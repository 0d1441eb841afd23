// How a connection becomes a member, or is refused by name.
#include <fmt/core.h>

#include <trireme/base/wire.h>

#include "runtime/rendezvous/store_state.h"

namespace trireme::store {

void StoreState::on_hello(ConnectionId connection, const Frame& frame, std::uint64_t now_ms, Actions& out) {
  Result<Hello> hello = Hello::decode(frame.payload);
  if (!hello.is_ok()) return refuse(connection, hello.status(), now_ms, out);
  if (hello->job_id != config_.job_id) {
    return refuse(
        connection,
        not_found(fmt::format("this is the store of job \"{}\", not of job \"{}\"", config_.job_id, hello->job_id)),
        now_ms, out);
  }
  Connection& client = connections_[connection];
  client.phase = Connection::Phase::proving;
  client.hello = std::move(*hello);
  client.hello_payload = frame.payload;
  WireWriter writer;
  writer.bytes(client.nonce);
  writer.bytes(make_proof(config_.secret, ProofRole::store, client.hello.nonce, client.nonce, client.hello_payload));
  out.push_back(Action::send_to(connection, MessageType::challenge, 0, writer.take()));
}

void StoreState::on_proof(ConnectionId connection, const Frame& frame, std::uint64_t now_ms, Actions& out) {
  Connection& client = connections_[connection];
  WireReader reader(frame.payload);
  const std::string_view proof = reader.bytes();
  const std::string expected =
      make_proof(config_.secret, ProofRole::client, client.hello.nonce, client.nonce, client.hello_payload);
  if (!reader.finished() || !equal_in_constant_time(proof, expected)) {
    return refuse(connection, permission_denied("wrong secret: it is not the one of job \"" + config_.job_id + "\""),
                  now_ms, out);
  }
  if (config_.world_size == 0 && client.hello.epoch == config_.epoch) {
    begin_epoch(config_.epoch, static_cast<int>(client.hello.world_size), out);
  }
  const Status verdict = admissible(client.hello);
  if (!verdict.is_ok()) return refuse(connection, verdict, now_ms, out);

  client.phase = Connection::Phase::member;
  --unproven_;
  ++connected_members_;
  Member& member = members_[client.hello.rank];
  member.state = Member::State::joined;
  member.connection = connection;
  member.info.host = client.hello.host;
  member.info.host_identity = client.hello.host_identity;
  member.info.pid = client.hello.pid;
  member.last_contact_ms = now_ms;
  member.note = client.peer;
  ++joined_;
  WireWriter writer;
  writer.i64(config_.host_rank);
  out.push_back(Action::send_to(connection, MessageType::welcome, 0, writer.take()));
  out.push_back(Action::log_line(LogLevel::debug, fmt::format("{} joined from {}: {} of {}", describe(member.info.rank),
                                                              client.peer, joined_, members_.size())));
  for (const auto& [context, failure] : failures_) {
    out.push_back(Action::send_to(connection, MessageType::failure, 0, encode_failure(failure)));
  }
  send_table_when_complete(out);
}

// Whether a client that knows the secret may become the member it wants to be.
Status StoreState::admissible(const Hello& hello) const {
  if (hello.epoch < config_.epoch) {
    return stale_epoch(fmt::format("this process belongs to epoch {} of job {}, but epoch {} has begun: it must end",
                                   hello.epoch, config_.job_id, config_.epoch));
  }
  if (hello.epoch > config_.epoch) {
    return mismatch(fmt::format("epoch {} has not begun: this store is at epoch {} of job {}", hello.epoch,
                                config_.epoch, config_.job_id));
  }
  if (hello.world_size != members_.size()) {
    return mismatch(fmt::format("this process says that the world has {} ranks; the store's world has {}",
                                hello.world_size, members_.size()));
  }
  const Member& member = members_[hello.rank];
  const std::string who = describe(member.info.rank);
  switch (member.state) {
    case Member::State::dead:
      return peer_dead(fmt::format("{} was declared dead: {}", who, member.note));
    case Member::State::left:
      return already_exists(who + " has joined and left already: join once in an attempt");
    case Member::State::lost:
      return peer_dead(who + " lost its connection to the store and counts as dead");
    case Member::State::joined:
      return already_exists(
          fmt::format("{} has already joined from {}; two processes have the same rank", who, member.note));
    case Member::State::missing:
      break;
  }
  if (hello.resume) return unavailable("the store was started anew and has lost what this attempt had stored");
  return Status::ok();
}

void StoreState::refuse(ConnectionId connection, const Status& why, std::uint64_t now_ms, Actions& out) {
  const Connection& client = connections_.at(connection);
  std::string who = client.peer;
  if (client.phase == Connection::Phase::proving) {
    who += fmt::format(" (says it is rank {} of {}, pid {} on {})", client.hello.rank, client.hello.world_size,
                       client.hello.pid, client.hello.host);
    if (client.hello.rank < members_.size() && members_[client.hello.rank].state == Member::State::missing) {
      members_[client.hello.rank].last_contact_ms = now_ms;
      members_[client.hello.rank].note = fmt::format("{} was refused: {}", client.peer, why.message());
    }
  }
  out.push_back(
      Action::log_line(LogLevel::warn, fmt::format("job {} refuses {}: {}", config_.job_id, who, why.to_string())));
  out.push_back(Action::send_to(connection, MessageType::refused, 0, encode_status(why)));
  drop(connection, out);
}

}  // namespace trireme::store
