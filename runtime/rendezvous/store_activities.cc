// Who does what. A rank that waits in vain asks what all the others do, and so do all who
// wait with it: their questions share rounds, or N ranks would cause N x N questions and
// answers. A question is answered by a round that begins after it, so no answer is older
// than its question; answers are passed on together.
#include <algorithm>

#include <trireme/base/wire.h>

#include "runtime/rendezvous/store_state.h"

namespace trireme::store {
namespace {

constexpr std::size_t kMaxQueriesPerConnection = 64;
constexpr std::uint64_t kRoundEveryMs = 50;
constexpr std::uint64_t kPassOnEveryMs = 25;  // A rank that never answers keeps nobody from the others' answers.

void append_part(std::string& parts, std::uint32_t& count, int rank, bool known, std::string_view text) {
  WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(rank));
  writer.u8(known ? 1 : 0);
  writer.bytes(text);
  parts += writer.data();
  ++count;
}

std::shared_ptr<const std::string> parts_payload(const std::string& parts, std::uint32_t count) {
  WireWriter writer;
  writer.u32(count);
  return std::make_shared<const std::string>(writer.take() + parts);
}

}  // namespace

void StoreState::on_query(ConnectionId connection, const Frame& frame, Actions& out) {
  Connection& asker = connections_.at(connection);
  if (asker.queries >= kMaxQueriesPerConnection) {
    std::string parts;
    std::uint32_t count = 0;
    for (const Member& member : members_) append_part(parts, count, member.info.rank, false, {});
    out.push_back(Action::send_to(connection, MessageType::activity_parts, frame.id, *parts_payload(parts, count)));
    return;
  }
  if (rounds_.empty() || rounds_.rbegin()->second.begun) rounds_.emplace(next_round_++, Round());
  const auto& [number, round] = *rounds_.rbegin();
  ++asker.queries;
  asker.pending.emplace(frame.id, Pending{Pending::Kind::activity, {}, number});
  rounds_.at(number).askers.push_back({connection, frame.id});
  const std::uint64_t now_ms = members_[asker.hello.rank].last_contact_ms;
  if (now_ms >= next_round_ms_) begin_round(number, now_ms, out);
}

void StoreState::begin_round(std::uint64_t number, std::uint64_t now_ms, Actions& out) {
  Round& round = rounds_.at(number);
  round.begun = true;
  next_round_ms_ = now_ms + kRoundEveryMs;
  round.awaited.assign(members_.size(), false);
  const auto nothing = std::make_shared<const std::string>();
  for (const Member& asked : members_) {
    if (asked.state != Member::State::joined) {
      append_part(round.parts, round.part_count, asked.info.rank, false, {});
      continue;
    }
    round.awaited[asked.info.rank] = true;
    ++round.missing;
    Action action;
    action.connection = asked.connection;
    action.type = MessageType::activity_request;
    action.id = number;
    action.payload = nothing;
    action.droppable = true;
    out.push_back(std::move(action));
  }
  if (round.part_count > 0) round.pass_on_ms = now_ms + kPassOnEveryMs;
  if (round.missing == 0) end_round(number, out);
}

void StoreState::on_answer(ConnectionId connection, const Frame& frame, Actions& out) {
  const auto found = rounds_.find(frame.id);
  if (found == rounds_.end() || !found->second.begun) return;  // Its askers gave up.
  WireReader reader(frame.payload);
  const std::string_view text = reader.bytes();
  const auto rank = static_cast<int>(connections_.at(connection).hello.rank);
  Round& round = found->second;
  if (!reader.finished() || !round.awaited[rank]) return;
  round.awaited[rank] = false;
  --round.missing;
  append_part(round.parts, round.part_count, rank, true, text);
  if (round.pass_on_ms == 0) round.pass_on_ms = members_[rank].last_contact_ms + kPassOnEveryMs;
  if (round.missing == 0) end_round(frame.id, out);
}

// In place of a rank that is gone.
void StoreState::answer_unknown(int rank, Actions& out) {
  for (auto next = rounds_.begin(); next != rounds_.end();) {
    auto& [number, round] = *next++;  // It may end here.
    if (!round.begun || !round.awaited[rank]) continue;
    round.awaited[rank] = false;
    append_part(round.parts, round.part_count, rank, false, {});
    if (--round.missing == 0) {
      end_round(number, out);
    } else {
      pass_on(round, out);
    }
  }
}

void StoreState::pass_on(Round& round, Actions& out) const {
  const auto payload = parts_payload(round.parts, round.part_count);
  for (const Waiter& asker : round.askers) {
    Action action;
    action.connection = asker.connection;
    action.type = MessageType::activity_parts;
    action.id = asker.id;
    action.payload = payload;
    out.push_back(std::move(action));
  }
  round.parts.clear();
  round.part_count = 0;
  round.pass_on_ms = 0;
}

void StoreState::end_round(std::uint64_t number, Actions& out) {
  Round& round = rounds_.at(number);
  pass_on(round, out);
  for (const Waiter& asker : round.askers) {
    Connection& member = connections_.at(asker.connection);
    member.pending.erase(asker.id);
    --member.queries;
  }
  rounds_.erase(number);
}

void StoreState::forget_question(ConnectionId connection, std::uint64_t round, std::uint64_t id) {
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return;
  std::vector<Waiter>& askers = found->second.askers;
  std::erase_if(askers, [&](const Waiter& asker) { return asker.connection == connection && asker.id == id; });
  --connections_.at(connection).queries;
  if (askers.empty()) rounds_.erase(found);
}

void StoreState::tick_rounds(std::uint64_t now_ms, Actions& out) {
  for (auto& [number, round] : rounds_) {
    if (round.pass_on_ms != 0 && round.pass_on_ms <= now_ms) pass_on(round, out);
  }
  if (!rounds_.empty() && !rounds_.rbegin()->second.begun && next_round_ms_ <= now_ms) {
    begin_round(rounds_.rbegin()->first, now_ms, out);
  }
}

}  // namespace trireme::store
