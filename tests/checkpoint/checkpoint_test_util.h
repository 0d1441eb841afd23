// What the tests of checkpoint share: states made from a seed, ranks as threads, and
// folders that vanish.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <trireme/base/partition.h>
#include <trireme/checkpoint/checkpointer.h>

#include "runtime/platform/api/files.h"
#include "runtime/rendezvous/api/local_worlds.h"

namespace trireme::checkpoint_test {

// A folder for the life of the object.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(make_temporary_directory("trireme-checkpoint-").value()) {}
  ~TemporaryFolder() { EXPECT_TRUE(remove_tree(path_).is_ok()); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The global tensors of a small model; contents are a function of (item, element, seed).
struct ItemKind {
  const char* name;
  DataType type;
  Shape shape;
  bool sharded;  // Over the ranks; otherwise every rank holds all of it.
};

inline const std::vector<ItemKind>& item_kinds() {
  static const std::vector<ItemKind> kinds = {
      {"parameters/w", DataType::f32, {37, 19}, false}, {"parameters/b", DataType::bf16, {5}, false},
      {"moments/w", DataType::f32, {37, 19}, true},     {"scale", DataType::f64, {}, false},
      {"counts", DataType::u8, {3, 1, 7}, true},        {"empty", DataType::i64, {0, 4}, false},
  };
  return kinds;
}

inline std::byte byte_of(std::size_t kind, std::int64_t offset, std::uint64_t seed) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ULL + kind * 0xD1B54A32D192ED03ULL + static_cast<std::uint64_t>(offset);
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::byte>(x >> 56);
}

// One rank's memory and its description.
class Model {
 public:
  Model(int rank, int ranks) {
    for (const ItemKind& kind : item_kinds()) {
      ShardSpec shard = ShardSpec::whole(kind.shape, rank, ranks);
      if (kind.sharded) {
        const Range part = balanced_part(kind.shape.elements(), rank, ranks);
        shard = {kind.shape, part.begin, part.end, 0, 1};
      }
      memory_.emplace_back(static_cast<std::size_t>(shard.elements()) * size_of(kind.type));
      state_.items.push_back({kind.name, kind.type, shard, memory_.back().data()});
    }
  }
  CheckpointState& state() { return state_; }

  void fill(std::uint64_t seed) {
    each_byte([&](std::size_t kind, std::int64_t offset, std::byte& byte) { byte = byte_of(kind, offset, seed); });
    state_.metadata.data_position = seed * 10;
    state_.metadata.random_seed = 42;
    state_.metadata.random_counter = seed * 100;
    state_.metadata.values = {{"loss", std::to_string(seed)}};
  }
  // The number of bytes that are not what fill(seed) wrote.
  std::size_t differences(std::uint64_t seed) {
    std::size_t count = 0;
    each_byte([&](std::size_t kind, std::int64_t offset, std::byte& byte) {
      if (byte != byte_of(kind, offset, seed)) ++count;
    });
    return count;
  }

 private:
  template <typename Visit>
  void each_byte(const Visit& visit) {
    for (std::size_t kind = 0; kind < memory_.size(); ++kind) {
      const auto begin = state_.items[kind].shard.begin * static_cast<std::int64_t>(size_of(state_.items[kind].type));
      for (std::size_t i = 0; i < memory_[kind].size(); ++i) {
        visit(kind, begin + static_cast<std::int64_t>(i), memory_[kind][i]);
      }
    }
  }
  std::vector<std::vector<std::byte>> memory_;
  CheckpointState state_;
};

// Runs `body(world)` on a thread per rank.
inline void on_ranks(const std::vector<std::shared_ptr<World>>& worlds,
                     const std::function<void(std::shared_ptr<World>)>& body) {
  std::vector<std::thread> threads;
  for (const auto& world : worlds) threads.emplace_back([&body, world] { body(world); });
  for (std::thread& thread : threads) thread.join();
}
inline void on_ranks(int size, const std::function<void(std::shared_ptr<World>)>& body) {
  auto worlds = make_local_worlds(size);
  ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
  on_ranks(*worlds, body);
}

inline std::shared_ptr<World> lone_world() {
  WorldOptions options;
  options.standalone = true;
  return World::join(options).value();
}

// A Checkpointer of one rank.
inline std::unique_ptr<Checkpointer> lone_checkpointer(const std::string& directory, int keep_last = 3) {
  CheckpointerOptions options;
  options.directory = directory;
  options.keep_last = keep_last;
  return Checkpointer::create(lone_world(), options).value();
}

inline Status save_and_wait(Checkpointer& checkpointer, std::int64_t step, const CheckpointState& state) {
  const Result<SaveHandle> handle = checkpointer.save(step, state);
  if (!handle.is_ok()) return handle.status();
  const Status status = handle->wait();
  (void)checkpointer.wait();
  return status;
}

// Names of the checkpoints and temporary folders in a directory, without the bookkeeping.
inline std::vector<std::string> step_names(const std::string& directory) {
  std::vector<std::string> names;
  const std::vector<std::string> all = list_directory(directory).value();
  for (const std::string& name : all) {
    if (name.rfind("step-", 0) == 0) names.push_back(name);
  }
  return names;
}

}  // namespace trireme::checkpoint_test
