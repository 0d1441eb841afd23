// What members ask of the store: keys, counters, exchanges, activities, leaving.
#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/wire.h>

#include "runtime/rendezvous/store_state.h"

namespace trireme::store {
namespace {

constexpr std::size_t kMaxStoredBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxPendingPerConnection = 65'536;

Status malformed_request(MessageType type) {
  return invalid_argument(fmt::format("a malformed {} request: its fields do not fill its bytes", to_string(type)));
}

}  // namespace

void StoreState::on_request(ConnectionId connection, const Frame& frame, Actions& out) {
  Connection& member = connections_.at(connection);
  const int rank = static_cast<int>(member.hello.rank);
  const Waiter asker{connection, frame.id};
  Status status;
  if (member.pending.count(frame.id) != 0 && frame.type != MessageType::cancel &&
      frame.type != MessageType::activity_answer) {
    return malformed(connection, invalid_argument("a request whose number another request still has"),
                     members_[rank].last_contact_ms, out);
  }
  switch (frame.type) {
    case MessageType::put:
      status = on_put(frame, out);
      if (status.is_ok()) reply(asker, status, {}, out);
      break;
    case MessageType::get:
      status = on_get(connection, frame, out);
      break;
    case MessageType::add:
      status = on_add(connection, frame, out);
      break;
    case MessageType::exchange:
      status = on_exchange(connection, frame, out);
      break;
    case MessageType::survivors:
      status = on_exchange(connection, frame, out);
      break;
    case MessageType::activity_query:
      return on_query(connection, frame, out);
    case MessageType::cancel:
      return on_cancel(connection, frame, out);
    case MessageType::activity_answer:
      return on_answer(connection, frame, out);
    case MessageType::leave:
      return on_leave(connection, frame, out);
    case MessageType::report_failure: {
      Result<Failure> failure = decode_failure(frame.payload);
      if (failure.is_ok()) return raise(*failure, out);
      return malformed(connection, failure.status(), members_[rank].last_contact_ms, out);
    }
    case MessageType::notify: {
      WireReader reader(frame.payload);
      Action action;
      action.kind = Action::Kind::notify;
      action.rank = rank;
      action.topic = reader.string();
      action.text = reader.string();
      if (reader.finished()) out.push_back(std::move(action));
      return;
    }
    default:
      status = unsupported(fmt::format("the store knows no request of type {}", static_cast<int>(frame.type)));
  }
  if (!status.is_ok()) reply(asker, status, {}, out);
}

Status StoreState::on_put(const Frame& frame, Actions& out) {
  WireReader reader(frame.payload);
  std::string key = reader.string();
  const std::string_view value = reader.bytes();
  if (!reader.finished()) return malformed_request(frame.type);
  TRIREME_RETURN_IF_ERROR(check_key(key));
  TRIREME_RETURN_IF_ERROR(check_value(key, value));
  const auto old = values_.find(key);
  const std::size_t freed = old == values_.end() ? 0 : old->second.size() + key.size();
  if (value_bytes_ - freed + key.size() + value.size() > kMaxStoredBytes) {
    return resource_exhausted(fmt::format("the store is full ({} bytes) and cannot take \"{}\"", value_bytes_, key));
  }
  value_bytes_ += key.size() + value.size() - freed;
  values_.insert_or_assign(key, std::string(value));
  const auto waiting = get_waiters_.find(key);
  if (waiting == get_waiters_.end()) return Status::ok();
  for (const Waiter& waiter : waiting->second) {
    connections_.at(waiter.connection).pending.erase(waiter.id);
    reply(waiter, Status::ok(), value, out);
  }
  get_waiters_.erase(waiting);
  return Status::ok();
}

Status StoreState::on_get(ConnectionId connection, const Frame& frame, Actions& out) {
  WireReader reader(frame.payload);
  std::string key = reader.string();
  if (!reader.finished()) return malformed_request(frame.type);
  TRIREME_RETURN_IF_ERROR(check_key(key));
  const auto found = values_.find(key);
  if (found != values_.end()) {
    reply({connection, frame.id}, Status::ok(), found->second, out);
    return Status::ok();
  }
  Connection& member = connections_.at(connection);
  if (active_ <= 1 && members_.size() > 1) {
    return gone(fmt::format("nobody is left to put \"{}\": all other ranks have left the job", key));
  }
  if (member.pending.size() >= kMaxPendingPerConnection) return resource_exhausted("too many requests wait at once");
  member.pending.emplace(frame.id, Pending{Pending::Kind::get, key, 0});
  get_waiters_[key].push_back({connection, frame.id});
  return Status::ok();
}

Status StoreState::on_add(ConnectionId connection, const Frame& frame, Actions& out) {
  WireReader reader(frame.payload);
  std::string key = reader.string();
  const std::int64_t delta = reader.i64();
  if (!reader.finished()) return malformed_request(frame.type);
  TRIREME_RETURN_IF_ERROR(check_key(key));
  std::int64_t& counter = counters_[key];
  std::int64_t sum = 0;
  if (__builtin_add_overflow(counter, delta, &sum)) {
    return counter_overflow(key, counter, delta);
  }
  counter = sum;
  WireWriter writer;
  writer.i64(sum);
  reply({connection, frame.id}, Status::ok(), writer.data(), out);
  return Status::ok();
}

Status StoreState::on_exchange(ConnectionId connection, const Frame& frame, Actions& out) {
  WireReader reader(frame.payload);
  std::string name = reader.string();
  const std::uint32_t count = reader.u32();
  if (reader.failed() || count > members_.size()) return malformed_request(frame.type);
  std::vector<int> ranks;
  ranks.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) ranks.push_back(static_cast<int>(reader.u32()));
  // Name and members together are the key, so that disjoint groups may use one name.
  const bool survivors = frame.type == MessageType::survivors;
  const std::string key =
      (survivors ? "survivors " : "") + frame.payload.substr(0, frame.payload.size() - reader.remaining());
  const std::string_view value = survivors ? std::string_view() : reader.bytes();
  if (!reader.finished()) return malformed_request(frame.type);
  TRIREME_RETURN_IF_ERROR(check_key(name));
  TRIREME_RETURN_IF_ERROR(check_value(name, value));

  Connection& member = connections_.at(connection);
  const int rank = static_cast<int>(member.hello.rank);
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    return invalid_argument(
        fmt::format("rank {} takes part in exchange \"{}\" but is not among its members", rank, name));
  }
  TRIREME_ASSIGN_OR_RETURN(Exchange * exchange,
                           find_or_open_exchange(key, std::move(name), std::move(ranks), survivors));
  const std::size_t position = exchange->position.at(rank);
  if (exchange->waiters[position]) {
    return already_exists(
        fmt::format("rank {} already waits in exchange \"{}\": the name must be unique", rank, exchange->name));
  }
  if (exchange->bytes + value.size() > kMaxExchangeBytes) {
    return resource_exhausted(
        fmt::format("the values of exchange \"{}\" exceed {} bytes in all", exchange->name, kMaxExchangeBytes));
  }
  std::optional<std::string>& slot = exchange->values[position];
  if (slot) {
    exchange->bytes -= slot->size();  // Came before, gave up, and comes again.
  } else {
    --exchange->missing;
  }
  exchange->bytes += value.size();
  slot = std::string(value);
  exchange->waiters[position] = Waiter{connection, frame.id};
  member.pending.emplace(frame.id, Pending{Pending::Kind::exchange, key, 0});
  if (exchange->missing == 0) complete_exchange(key, out);
  return Status::ok();
}

Result<StoreState::Exchange*> StoreState::find_or_open_exchange(const std::string& key, std::string name,
                                                                std::vector<int> members, bool survivors) {
  const auto found = exchanges_.find(key);
  if (found != exchanges_.end()) return &found->second;
  Exchange opened;
  opened.survivors = survivors;
  opened.missing = members.size();
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int rank = members[i];
    if (rank < 0 || rank >= config_.world_size || !opened.position.emplace(rank, i).second) {
      return invalid_argument(fmt::format("the members of exchange \"{}\" are not distinct ranks of 0..{}: rank {}",
                                          name, config_.world_size - 1, rank));
    }
    const Member::State state = members_[rank].state;
    if (state == Member::State::left || state == Member::State::dead) {
      --opened.missing;
      if (survivors) continue;
      return gone(fmt::format("{} has left the job and cannot take part in exchange \"{}\"", describe(rank), name));
    }
  }
  opened.name = std::move(name);
  opened.members = std::move(members);
  opened.values.resize(opened.members.size());
  opened.waiters.resize(opened.members.size());
  return &exchanges_.emplace(key, std::move(opened)).first->second;
}

void StoreState::complete_exchange(const std::string& key, Actions& out) {
  const auto found = exchanges_.find(key);
  Exchange& exchange = found->second;
  WireWriter writer;
  if (exchange.survivors) {
    std::vector<int> present;
    for (std::size_t i = 0; i < exchange.members.size(); ++i) {
      const bool here = members_[exchange.members[i]].state == Member::State::joined;
      if (exchange.values[i] && here) present.push_back(exchange.members[i]);
    }
    writer.u32(static_cast<std::uint32_t>(present.size()));
    for (const int rank : present) writer.u32(static_cast<std::uint32_t>(rank));
  } else {
    writer.u32(static_cast<std::uint32_t>(exchange.values.size()));
    for (const auto& value : exchange.values) writer.bytes(*value);
  }
  const auto payload = std::make_shared<const std::string>(encode_reply(Status::ok(), writer.data()));
  for (const auto& waiter : exchange.waiters) {
    if (!waiter) continue;
    connections_.at(waiter->connection).pending.erase(waiter->id);
    Action action;
    action.connection = waiter->connection;
    action.type = MessageType::reply;
    action.id = waiter->id;
    action.payload = payload;
    out.push_back(std::move(action));
  }
  exchanges_.erase(found);
}

void StoreState::on_cancel(ConnectionId connection, const Frame& frame, Actions& out) {
  Connection& member = connections_.at(connection);
  const auto found = member.pending.find(frame.id);
  if (found == member.pending.end()) return;  // Answered meanwhile.
  const Pending pending = std::move(found->second);
  member.pending.erase(found);
  forget_pending(connection, pending, frame.id);
  if (pending.kind != Pending::Kind::exchange) return;
  const Exchange& exchange = exchanges_.at(pending.key);
  std::vector<int> missing;
  for (std::size_t i = 0; i < exchange.members.size(); ++i) {
    if (!exchange.values[i]) missing.push_back(exchange.members[i]);
  }
  const Status late = deadline_exceeded(fmt::format("exchange \"{}\": {} of {} ranks have not come: {}", exchange.name,
                                                    missing.size(), exchange.members.size(), list_members(missing)));
  reply({connection, frame.id}, late, {}, out);
}

// Takes a request out of whatever it waits in. The connection's own list is the caller's.
void StoreState::forget_pending(ConnectionId connection, const Pending& pending, std::uint64_t id) {
  if (pending.kind == Pending::Kind::get) {
    const auto found = get_waiters_.find(pending.key);
    if (found == get_waiters_.end()) return;
    std::erase_if(found->second, [&](const Waiter& w) { return w.connection == connection && w.id == id; });
    if (found->second.empty()) get_waiters_.erase(found);
  } else if (pending.kind == Pending::Kind::exchange) {
    const auto found = exchanges_.find(pending.key);
    if (found == exchanges_.end()) return;
    for (auto& waiter : found->second.waiters) {
      if (waiter && waiter->connection == connection && waiter->id == id) waiter.reset();
    }
  } else {
    forget_question(connection, pending.round, id);
  }
}

void StoreState::reply(const Waiter& to, const Status& status, std::string_view result, Actions& out) {
  Action action;
  action.connection = to.connection;
  action.type = MessageType::reply;
  action.id = to.id;
  action.payload = std::make_shared<const std::string>(encode_reply(status, result));
  out.push_back(std::move(action));
}

}  // namespace trireme::store
