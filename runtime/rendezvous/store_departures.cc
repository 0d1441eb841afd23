// When a member is gone: what others wait for from it will never come.
#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/wire.h>

#include "runtime/rendezvous/store_state.h"

namespace trireme::store {

void StoreState::on_leave(ConnectionId connection, const Frame& frame, Actions& out) {
  const int rank = static_cast<int>(connections_.at(connection).hello.rank);
  Member& member = members_[rank];
  if (!table_sent_) {
    Failure failure;
    for (const Member& other : members_) {
      if (other.state != Member::State::missing) continue;
      failure.culprit_rank = other.info.rank;
      break;
    }
    failure.status = deadline_exceeded(fmt::format("{} gave up waiting for all ranks to join: {}", describe(rank),
                                                   describe_membership(member.last_contact_ms)));
    raise(failure, out);
  }
  reply({connection, frame.id}, Status::ok(), {}, out);
  drop(connection, out);
  member.state = Member::State::left;
  --active_;
  WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(rank));
  broadcast(MessageType::departed, 0, writer.take(), out);
  release_waits_for(rank, out);
}

// A death explains more than the absence that follows from it.
Status StoreState::gone(std::string absence) const {
  const auto known = failures_.find(0);
  return known == failures_.end() ? peer_dead(std::move(absence)) : known->second.status;
}

void StoreState::release_waits_for(int rank, Actions& out) {
  std::vector<std::string> hopeless;
  for (const auto& [key, exchange] : exchanges_) {
    const auto place = exchange.position.find(rank);
    if (place != exchange.position.end() && !exchange.values[place->second]) hopeless.push_back(key);
  }
  std::sort(hopeless.begin(), hopeless.end());
  for (const std::string& key : hopeless) {
    if (Exchange& left = exchanges_.at(key); left.survivors) {
      if (--left.missing == 0) complete_exchange(key, out);
      continue;
    }
    const Exchange exchange = std::move(exchanges_.at(key));
    exchanges_.erase(key);
    const Status why =
        gone(fmt::format("{} has left the job and will not come to exchange \"{}\"", describe(rank), exchange.name));
    for (const auto& waiter : exchange.waiters) {
      if (!waiter) continue;
      connections_.at(waiter->connection).pending.erase(waiter->id);
      reply(*waiter, why, {}, out);
    }
  }
  answer_unknown(rank, out);
  if (active_ > 1) return;
  std::vector<std::pair<std::string, std::vector<Waiter>>> waiting(get_waiters_.begin(), get_waiters_.end());
  get_waiters_.clear();
  std::sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, waiters] : waiting) {
    for (const Waiter& waiter : waiters) {
      connections_.at(waiter.connection).pending.erase(waiter.id);
      const Status why =
          gone(fmt::format("nobody is left to put \"{}\": {} was the last to leave the job", key, describe(rank)));
      reply(waiter, why, {}, out);
    }
  }
}

}  // namespace trireme::store
