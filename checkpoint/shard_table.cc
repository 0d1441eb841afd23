#include "checkpoint/shard_table.h"

#include <trireme/base/wire.h>

namespace trireme {
namespace {

Status read_status(WireReader& reader) {
  const auto code = static_cast<StatusCode>(reader.u8());
  return Status(code, reader.string());
}

void write_status(WireWriter& writer, const Status& status) {
  writer.u8(static_cast<std::uint8_t>(status.code()));
  writer.bytes(status.message());
}

void write_entry(WireWriter& writer, const ShardEntry& entry) {
  writer.bytes(entry.name);
  writer.u8(static_cast<std::uint8_t>(entry.type));
  writer.u8(static_cast<std::uint8_t>(entry.shape.rank()));
  for (int axis = 0; axis < entry.shape.rank(); ++axis) writer.i64(entry.shape[axis]);
  writer.i64(entry.range.begin);
  writer.i64(entry.range.end);
  writer.u64(entry.offset);
  writer.u32(static_cast<std::uint32_t>(entry.checksums.size()));
  for (const std::uint64_t checksum : entry.checksums) writer.u64(checksum);
}

bool read_entry(WireReader& reader, ShardEntry& entry) {
  entry.name = reader.string();
  const std::uint8_t type = reader.u8();
  const std::uint8_t rank = reader.u8();
  if (type >= kDataTypeCount || rank > Shape::kRankMax) return false;
  entry.type = static_cast<DataType>(type);
  std::vector<std::int64_t> extents(rank);
  for (std::int64_t& extent : extents) extent = reader.i64();
  entry.shape = Shape::of(extents);
  entry.range.begin = reader.i64();
  entry.range.end = reader.i64();
  entry.offset = reader.u64();
  const std::uint32_t checksums = reader.u32();
  if (checksums > reader.remaining() / sizeof(std::uint64_t)) return false;
  entry.checksums.resize(checksums);
  for (std::uint64_t& checksum : entry.checksums) checksum = reader.u64();
  return !reader.failed();
}

}  // namespace

std::string encode_status(const Status& status) {
  WireWriter writer;
  write_status(writer, status);
  return writer.take();
}

Status decode_status(std::string_view bytes) {
  WireReader reader(bytes);
  const Status status = read_status(reader);
  if (!reader.finished()) return data_loss("a rank's answer about a checkpoint cannot be read");
  return status;
}

std::string encode_table(const ShardTable& table) {
  WireWriter writer;
  write_status(writer, table.status);
  writer.i64(table.step);
  writer.u64(table.metadata_hash);
  writer.bytes(table.file);
  writer.u64(table.file_bytes);
  writer.u32(static_cast<std::uint32_t>(table.entries.size()));
  for (const ShardEntry& entry : table.entries) write_entry(writer, entry);
  return writer.take();
}

Result<ShardTable> decode_table(std::string_view bytes) {
  WireReader reader(bytes);
  ShardTable table;
  table.status = read_status(reader);
  table.step = reader.i64();
  table.metadata_hash = reader.u64();
  table.file = reader.string();
  table.file_bytes = reader.u64();
  const std::uint32_t count = reader.u32();
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) {
    ShardEntry entry;
    if (!read_entry(reader, entry)) return data_loss("a rank's shard table cannot be read");
    table.entries.push_back(std::move(entry));
  }
  if (!reader.finished()) return data_loss("a rank's shard table cannot be read");
  return table;
}

}  // namespace trireme
