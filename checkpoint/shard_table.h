// ShardTable: what one rank tells rank 0 about its part of a save: that it failed, or
// what is in its shard file. Encoded for World::exchange.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/base/partition.h>
#include <trireme/base/status.h>
#include <trireme/tensor/tensor.h>

namespace trireme {

struct ShardEntry {
  std::string name;
  DataType type = DataType::f32;
  Shape shape;
  Range range;  // What this rank wrote; may be empty.
  std::uint64_t offset = 0;
  std::vector<std::uint64_t> checksums;
};

struct ShardTable {
  Status status;  // Not ok: this rank could not write; the rest is empty.
  std::int64_t step = 0;
  std::uint64_t metadata_hash = 0;
  std::string file;
  std::uint64_t file_bytes = 0;
  std::vector<ShardEntry> entries;
};

std::string encode_status(const Status& status);
// A text that cannot be read becomes data_loss.
Status decode_status(std::string_view bytes);
std::string encode_table(const ShardTable& table);
// Errors: data_loss.
Result<ShardTable> decode_table(std::string_view bytes);

}  // namespace trireme
