// Connections, membership, deaths and failures. The handshake is in store_handshake.cc, the
// requests of members in store_requests.cc.
#include "runtime/rendezvous/store_state.h"

#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/check.h>
#include <trireme/base/units.h>
#include <trireme/base/wire.h>

namespace trireme::store {
Action Action::log_line(LogLevel level, std::string text) {
  Action action;
  action.kind = Kind::log;
  action.level = level;
  action.text = std::move(text);
  return action;
}

Action Action::send_to(ConnectionId connection, MessageType type, std::uint64_t id, std::string payload) {
  Action action;
  action.connection = connection;
  action.type = type;
  action.id = id;
  action.payload = std::make_shared<const std::string>(std::move(payload));
  return action;
}

StoreState::StoreState(StoreConfig config) : config_(std::move(config)) {
  TRIREME_CHECK(config_.world_size >= 0 && config_.world_size <= kMaxWorldSize, "a world's size, or 0: not yet known");
  Actions none;
  begin_epoch(config_.epoch, config_.world_size, none);
}

void StoreState::connected(ConnectionId connection, std::string peer, std::string nonce, std::uint64_t now_ms,
                           Actions& out) {
  TRIREME_CHECK(nonce.size() == kNonceBytes, "a nonce of kNonceBytes");
  if (unproven_ >= config_.max_unproven_connections) {
    // The oldest has had the longest time to prove itself.
    while (!handshake_timers_.empty()) {
      const ConnectionId oldest = handshake_timers_.front().second;
      handshake_timers_.pop_front();
      const auto found = connections_.find(oldest);
      if (found == connections_.end() || found->second.phase == Connection::Phase::member) continue;
      refuse(oldest, resource_exhausted("too many connections in their handshake: the oldest is closed"), now_ms, out);
      break;
    }
  }
  Connection& opened = connections_[connection];
  opened.peer = std::move(peer);
  opened.nonce = std::move(nonce);
  ++unproven_;
  handshake_timers_.emplace_back(now_ms + config_.handshake_timeout_ms, connection);
}

void StoreState::received(ConnectionId connection, const Frame& frame, std::uint64_t now_ms, Actions& out) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  switch (found->second.phase) {
    case Connection::Phase::greeting:
      if (frame.type != MessageType::hello) {
        return refuse(
            connection,
            invalid_argument(fmt::format("the first frame has type {}, not hello", static_cast<int>(frame.type))),
            now_ms, out);
      }
      return on_hello(connection, frame, now_ms, out);
    case Connection::Phase::proving:
      if (frame.type != MessageType::proof) {
        return refuse(connection,
                      invalid_argument(
                          fmt::format("a frame of type {} where the proof was expected", static_cast<int>(frame.type))),
                      now_ms, out);
      }
      return on_proof(connection, frame, now_ms, out);
    case Connection::Phase::member:
      members_[found->second.hello.rank].last_contact_ms = now_ms;
      return on_request(connection, frame, out);
  }
}

void StoreState::malformed(ConnectionId connection, const Status& reason, std::uint64_t now_ms, Actions& out) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  if (found->second.phase != Connection::Phase::member) return refuse(connection, reason, now_ms, out);
  const int rank = static_cast<int>(found->second.hello.rank);
  drop(connection, out);
  declare_dead(rank, "it sent the store " + reason.message(), out);
}

void StoreState::disconnected(ConnectionId connection, std::uint64_t now_ms, Actions& out) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  const Connection& ended = found->second;
  if (ended.phase == Connection::Phase::member) {
    const int rank = static_cast<int>(ended.hello.rank);
    forget_connection(connection);
    return lose_member(rank, now_ms, out);
  }
  const bool proving = ended.phase == Connection::Phase::proving;
  out.push_back(Action::log_line(proving ? LogLevel::warn : LogLevel::debug,
                                 fmt::format("{} closed its connection during the handshake{}", ended.peer,
                                             proving ? ": so does a client whose secret differs from ours" : "")));
  if (proving && ended.hello.rank < members_.size() && members_[ended.hello.rank].state == Member::State::missing) {
    members_[ended.hello.rank].last_contact_ms = now_ms;
    members_[ended.hello.rank].note = ended.peer + " closed its connection during the handshake";
  }
  forget_connection(connection);
}

void StoreState::tick(std::uint64_t now_ms, Actions& out) {
  while (!handshake_timers_.empty() && handshake_timers_.front().first <= now_ms) {
    const ConnectionId connection = handshake_timers_.front().second;
    handshake_timers_.pop_front();
    const auto found = connections_.find(connection);
    if (found == connections_.end() || found->second.phase == Connection::Phase::member) continue;
    refuse(connection,
           deadline_exceeded(
               fmt::format("no complete handshake within {}", format_duration_ms(config_.handshake_timeout_ms))),
           now_ms, out);
  }
  while (!death_timers_.empty() && death_timers_.front().first <= now_ms) {
    const int rank = death_timers_.front().second;
    death_timers_.pop_front();
    if (members_[rank].state == Member::State::lost) declare_dead(rank, "its connection to the store ended", out);
  }
  tick_rounds(now_ms, out);
}

std::optional<std::uint64_t> StoreState::next_timer_ms() const {
  std::optional<std::uint64_t> next;
  if (unproven_ > 0 && !handshake_timers_.empty()) next = handshake_timers_.front().first;
  const auto also = [&](std::uint64_t timer_ms) { next = std::min(next.value_or(UINT64_MAX), timer_ms); };
  if (!death_timers_.empty()) also(death_timers_.front().first);
  for (const auto& [number, round] : rounds_) {
    if (!round.begun) also(next_round_ms_);
    if (round.pass_on_ms != 0) also(round.pass_on_ms);
  }
  return next;
}

void StoreState::begin_epoch(std::int64_t epoch, int world_size, Actions& out) {
  std::vector<ConnectionId> old_members;
  for (const auto& [id, connection] : connections_) {
    if (connection.phase == Connection::Phase::member) old_members.push_back(id);
  }
  std::sort(old_members.begin(), old_members.end());  // The order must not depend on a hash.
  Failure stale;
  stale.status = stale_epoch(fmt::format("epoch {} of job {} has begun; this process belongs to epoch {} and must end",
                                         epoch, config_.job_id, config_.epoch));
  for (const ConnectionId id : old_members) {
    out.push_back(Action::send_to(id, MessageType::failure, 0, encode_failure(stale)));
    drop(id, out);
  }
  config_.epoch = epoch;
  config_.world_size = world_size;
  members_.assign(static_cast<std::size_t>(world_size), Member());
  for (int rank = 0; rank < world_size; ++rank) members_[rank].info.rank = rank;
  death_timers_.clear();
  joined_ = 0;
  active_ = members_.size();
  table_sent_ = false;
  failures_.clear();
  values_.clear();
  value_bytes_ = 0;
  counters_.clear();
  get_waiters_.clear();
  exchanges_.clear();
  rounds_.clear();
}

void StoreState::announce_death(int rank, std::string_view reason, Actions& out) {
  if (rank < 0 || rank >= config_.world_size) return;
  Member& member = members_[rank];
  if (member.state == Member::State::left || member.state == Member::State::dead) return;
  if (member.state == Member::State::joined) drop(member.connection, out);
  declare_dead(rank, reason, out);
}

void StoreState::close_all(std::string_view reason, Actions& out) {
  closed_ = true;
  WireWriter writer;
  writer.bytes(reason);
  broadcast(MessageType::closing, 0, writer.take(), out);
  std::vector<ConnectionId> all;
  for (const auto& entry : connections_) all.push_back(entry.first);
  std::sort(all.begin(), all.end());
  for (const ConnectionId id : all) drop(id, out);
}

bool StoreState::is_member(ConnectionId connection) const {
  const auto found = connections_.find(connection);
  return found != connections_.end() && found->second.phase == Connection::Phase::member;
}

void StoreState::drop(ConnectionId connection, Actions& out) {
  Action action;
  action.kind = Action::Kind::close;
  action.connection = connection;
  out.push_back(std::move(action));
  forget_connection(connection);
}

void StoreState::forget_connection(ConnectionId connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  for (const auto& [id, pending] : found->second.pending) forget_pending(connection, pending, id);
  if (found->second.phase == Connection::Phase::member) {
    --connected_members_;
  } else {
    --unproven_;
  }
  connections_.erase(found);
}

void StoreState::send_table_when_complete(Actions& out) {
  if (table_sent_ || joined_ != members_.size() || active_ != members_.size()) return;
  table_sent_ = true;
  std::vector<PeerInfo> peers;
  peers.reserve(members_.size());
  for (const Member& member : members_) peers.push_back(member.info);
  broadcast(MessageType::table, 0, encode_table(peers), out);
}

// The connection ended without a leave: dead now, or once the launcher had time to say why.
void StoreState::lose_member(int rank, std::uint64_t now_ms, Actions& out) {
  members_[rank].last_contact_ms = now_ms;
  if (config_.death_notice_ms == 0 || closed_) return declare_dead(rank, "its connection to the store ended", out);
  members_[rank].state = Member::State::lost;
  death_timers_.emplace_back(now_ms + config_.death_notice_ms, rank);
}

void StoreState::declare_dead(int rank, std::string_view reason, Actions& out) {
  Member& member = members_[rank];
  Failure failure;
  failure.culprit_rank = rank;
  failure.status = member.state == Member::State::missing
                       ? peer_dead(fmt::format("rank {} ended before it joined: {}", rank, reason))
                       : peer_dead(fmt::format("{} died: {}", describe(rank), reason));
  member.state = Member::State::dead;
  member.note = reason;
  --active_;
  raise(failure, out);
  release_waits_for(rank, out);
}

void StoreState::raise(const Failure& failure, Actions& out) {
  // Of a context the first failure counts; further deaths are told, for those who went on
  // without the first.
  const bool first = failures_.try_emplace(failure.context, failure).second;
  const auto culprit = static_cast<std::size_t>(failure.culprit_rank);  // Of a report: any number.
  const bool of_rank = failure.context == 0 && culprit < members_.size();
  if (!first && (!of_rank || members_[culprit].state != Member::State::dead || members_[culprit].blamed)) return;
  if (of_rank) members_[culprit].blamed = true;
  out.push_back(Action::log_line(
      LogLevel::warn, fmt::format("job {}, epoch {}: {}", config_.job_id, config_.epoch, failure.status.to_string())));
  broadcast(MessageType::failure, 0, encode_failure(failure), out);
}

void StoreState::broadcast(MessageType type, std::uint64_t id, std::string payload, Actions& out) {
  const auto shared = std::make_shared<const std::string>(std::move(payload));
  for (const Member& member : members_) {
    if (member.state != Member::State::joined) continue;
    Action action;
    action.connection = member.connection;
    action.type = type;
    action.id = id;
    action.payload = shared;
    out.push_back(std::move(action));
  }
}

std::string StoreState::describe(int rank) const {
  return members_[rank].info.to_string();
}

std::string StoreState::list_members(const std::vector<int>& ranks) const {
  constexpr std::size_t kShown = 16;
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    if (i > 0) text += ", ";
    text += members_[ranks[i]].state == Member::State::missing ? fmt::format("rank {}", ranks[i]) : describe(ranks[i]);
  }
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text.empty() ? "none" : text;
}

std::string StoreState::describe_membership(std::uint64_t now_ms) const {
  constexpr std::size_t kShown = 16;
  std::vector<int> present;
  std::string missing;
  std::size_t missing_count = 0;
  for (const Member& member : members_) {
    if (member.state == Member::State::joined) {
      present.push_back(member.info.rank);
      continue;
    }
    if (++missing_count > kShown) continue;
    if (!missing.empty()) missing += ", ";
    missing +=
        member.state == Member::State::missing ? fmt::format("rank {}", member.info.rank) : describe(member.info.rank);
    if (member.state == Member::State::left) {
      missing += ": left";
    } else if (member.note.empty()) {
      missing += ": never heard from";
    } else {
      const std::uint64_t ago_ms = now_ms > member.last_contact_ms ? now_ms - member.last_contact_ms : 0;
      missing += fmt::format(": last heard from {} ago, {}", format_duration_ms(ago_ms), member.note);
    }
  }
  if (missing_count > kShown) missing += fmt::format(" and {} more", missing_count - kShown);
  return fmt::format("job {}, epoch {}: {} of {} ranks are here ({}); missing: {}", config_.job_id, config_.epoch,
                     present.size(), members_.size(), list_members(present), missing.empty() ? "none" : missing);
}

}  // namespace trireme::store
