// Random histories of the store, from a seed: the harness checks the invariants on every
// action; here a plain model says what the answers must be.
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "tests/runtime/rendezvous/store_harness.h"

namespace trireme::store {
namespace {

class RandomHistory {
 public:
  explicit RandomHistory(unsigned seed) : random_(seed), store_(1 + static_cast<int>(seed % 7), seed % 2 * 50) {}

  void run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      step();
      check_new_replies();
    }
    store_.close_all();
  }

 private:
  unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }

  ConnectionId any_open() {
    std::vector<ConnectionId> open;
    for (const auto& [id, client] : store_.clients()) {
      if (client.open) open.push_back(id);
    }
    return open.empty() ? 0 : open[below(static_cast<unsigned>(open.size()))];
  }

  void step() {
    const unsigned dice = below(100);
    const ConnectionId id = any_open();
    if (dice < 15 || id == 0) return connect();
    if (dice < 18) return store_.disconnect(id);
    if (dice < 19) return store_.malformed(id);
    if (dice < 24) return store_.tick(below(3000));
    if (dice < 25) return store_.announce_death(static_cast<int>(below(9)) - 1, "announced");
    if (dice < 26) return new_epoch();
    if (dice < 30) return store_.send(id, static_cast<MessageType>(below(60)), below(50), junk());
    request(id);
  }

  void connect() {
    Hello hello = store_.hello(static_cast<int>(below(static_cast<unsigned>(store_.size()))));
    switch (below(12)) {
      case 0:
        hello.job_id = "other";
        break;
      case 1:
        hello.epoch -= 1;
        break;
      case 2:
        hello.resume = true;
        break;
      case 3:
        store_.connect();
        return;
      case 4:
        store_.send_hello(store_.connect(), hello);
        return;
      default:
        break;
    }
    store_.join(hello, below(10) == 0 ? "wrong" : "secret");
  }

  void new_epoch() {
    store_.begin_epoch(store_.epoch() + 1, 1 + static_cast<int>(below(7)));
    values_.clear();
    counters_.clear();
  }

  std::string junk() {
    std::string bytes(below(40), '\0');
    for (char& c : bytes) c = static_cast<char>(below(256));
    return bytes;
  }

  std::vector<int> members_with(int rank) {
    std::vector<int> members;
    for (int r = 0; r < store_.size(); ++r) {
      if (r == rank || below(3) == 0) members.push_back(r);
    }
    return members;
  }

  void request(ConnectionId id) {
    auto& client = store_.client(id);
    if (!client.member) return store_.send(id, MessageType::put, 1, junk());
    const std::uint64_t number = next_++;
    const std::string key(1, static_cast<char>('a' + below(4)));
    const unsigned dice = below(100);
    if (dice < 20) {
      const std::string value = std::to_string(number);
      values_[key] = value;
      store_.send(id, MessageType::put, number, encode_pair(key, value));
    } else if (dice < 45) {
      gets_[{id, number}] = key;
      store_.send(id, MessageType::get, number, encode_text(key));
    } else if (dice < 60) {
      const int delta = static_cast<int>(below(21)) - 10;
      counters_[key] += delta;
      sums_[{id, number}] = counters_[key];
      store_.send(id, MessageType::add, number, encode_add(key, delta));
    } else if (dice < 75) {
      const auto members = members_with(client.rank);
      sizes_[{id, number}] = members.size();
      store_.send(id, MessageType::exchange, number, encode_exchange(key, members, std::to_string(client.rank)));
    } else if (dice < 85) {
      store_.send(id, MessageType::cancel, client.asked.empty() ? number : *client.asked.begin(), {});
    } else if (dice < 90) {
      store_.send(id, MessageType::activity_query, number, {});
    } else if (dice < 96) {
      const std::uint64_t query = client.inbox.empty() ? 1 : client.inbox.back().id;
      store_.send(id, MessageType::activity_answer, query, encode_text("busy"));
    } else if (dice < 98) {
      store_.send(id, MessageType::report_failure, 0, encode_failure({aborted("reported"), -1, 1 + below(3)}));
    } else {
      store_.send(id, MessageType::leave, number, {});
    }
  }

  void check_new_replies() {
    for (auto& [id, client] : store_.clients()) {
      for (std::size_t& seen = seen_[id]; seen < client.inbox.size(); ++seen) {
        const Frame& frame = client.inbox[seen];
        if (frame.type == MessageType::reply) check_reply(id, frame);
      }
    }
  }

  void check_reply(ConnectionId id, const Frame& frame) {
    const auto reply = decode_reply(frame.payload);
    if (!reply.is_ok()) return;
    const std::pair place(id, frame.id);
    if (const auto get = gets_.find(place); get != gets_.end()) {
      EXPECT_EQ(*reply, values_[get->second]);
    }
    if (const auto sum = sums_.find(place); sum != sums_.end()) {
      EXPECT_EQ(WireReader(*reply).i64(), sum->second);
    }
    if (const auto size = sizes_.find(place); size != sizes_.end()) {
      WireReader reader(*reply);
      EXPECT_EQ(reader.u32(), size->second);
      bool mine = false;
      for (std::size_t i = 0; i < size->second; ++i) mine |= reader.string() == std::to_string(store_.client(id).rank);
      EXPECT_TRUE(reader.finished() && mine);
    }
  }

  std::mt19937 random_;
  StoreHarness store_;
  std::uint64_t next_ = 100;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> counters_;
  std::map<std::pair<ConnectionId, std::uint64_t>, std::string> gets_;
  std::map<std::pair<ConnectionId, std::uint64_t>, std::int64_t> sums_;
  std::map<std::pair<ConnectionId, std::uint64_t>, std::size_t> sizes_;
  std::map<ConnectionId, std::size_t> seen_;
};

void run_seeds(unsigned first, unsigned count, int events) {
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomHistory(seed).run(events);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(StoreRandom, InvariantsHoldInRandomHistories) {
  run_seeds(1, 60, 400);
}
TEST(StoreRandom, LongRandomHistories) {
  run_seeds(1000, 1500, 800);
}

}  // namespace
}  // namespace trireme::store
