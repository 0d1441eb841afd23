// CheckpointState: what a checkpoint holds, as one rank sees it.
//
// A state is a list of named items and a little metadata. An item is this rank's part of
// a global tensor: its ShardSpec says which part, so ranks may hold the whole (replicas),
// disjoint ranges (shards) or both. Two ranks that name the same item mean the same
// global tensor. Parallel engines build states; checkpoints know nothing of engines.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/tensor/shard_spec.h>

namespace trireme {

struct CheckpointItem {
  std::string name;  // Unique within the state: "parameters/h.0.attn.c_attn.weight".
  DataType type = DataType::f32;
  ShardSpec shard;       // `data` holds [shard.begin, shard.end) of the global tensor.
  void* data = nullptr;  // Host memory, shard.elements() * size_of(type) bytes.
};

// The same on all ranks; rank 0's is stored.
struct CheckpointMetadata {
  std::int64_t step = 0;            // Set by save().
  std::int64_t epoch = 0;           // Of the attempt that saved; set by save().
  std::uint64_t data_position = 0;  // Global ordinal of the next training sample.
  std::uint64_t random_seed = 0;
  std::uint64_t random_counter = 0;
  std::map<std::string, std::string> values;  // The program's own, UTF-8.
};

struct CheckpointState {
  std::vector<CheckpointItem> items;
  CheckpointMetadata metadata;
};

}  // namespace trireme
