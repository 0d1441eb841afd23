#include "checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <trireme/base/hash.h>

#include "checkpoint/plan.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "trireme-checkpoint/1";

std::string hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

std::uint64_t parse_hex(const std::string& text) {
  std::size_t used = 0;
  const std::uint64_t value = std::stoull(text, &used, 16);
  if (used != 16 || text.size() != 16) throw std::invalid_argument("a checksum is not 16 hexadecimal digits");
  return value;
}

json to_json(const SavedPart& part) {
  json checksums = json::array();
  for (const std::uint64_t checksum : part.checksums) checksums.push_back(hex(checksum));
  return {{"begin", part.range.begin},
          {"end", part.range.end},
          {"file", part.file},
          {"offset", part.offset},
          {"checksums", std::move(checksums)}};
}

json to_json(const SavedItem& item) {
  json shape = json::array();
  for (int axis = 0; axis < item.shape.rank(); ++axis) shape.push_back(item.shape[axis]);
  json parts = json::array();
  for (const SavedPart& part : item.parts) parts.push_back(to_json(part));
  return {
      {"name", item.name}, {"type", to_string(item.type)}, {"shape", std::move(shape)}, {"parts", std::move(parts)}};
}

SavedPart part_from_json(const json& value) {
  SavedPart part;
  part.range = {value.at("begin").get<std::int64_t>(), value.at("end").get<std::int64_t>()};
  part.file = value.at("file").get<std::uint32_t>();
  part.offset = value.at("offset").get<std::uint64_t>();
  for (const json& checksum : value.at("checksums")) part.checksums.push_back(parse_hex(checksum.get<std::string>()));
  return part;
}

SavedItem item_from_json(const json& value) {
  SavedItem item;
  item.name = value.at("name").get<std::string>();
  const Result<DataType> type = parse_data_type(value.at("type").get<std::string>());
  if (!type.is_ok()) throw std::invalid_argument(type.status().message());
  item.type = *type;
  const auto extents = value.at("shape").get<std::vector<std::int64_t>>();
  if (extents.size() > static_cast<std::size_t>(Shape::kRankMax))
    throw std::invalid_argument("a shape has too many extents");
  item.shape = Shape::of(extents);
  for (const json& part : value.at("parts")) item.parts.push_back(part_from_json(part));
  return item;
}

Manifest manifest_from_json(const json& value) {
  Manifest manifest;
  manifest.job_id = value.at("job").get<std::string>();
  manifest.generation = value.at("generation").get<std::uint64_t>();
  manifest.wall_ms = value.at("wall_ms").get<std::uint64_t>();
  manifest.metadata.step = value.at("step").get<std::int64_t>();
  manifest.metadata.epoch = value.at("epoch").get<std::int64_t>();
  manifest.metadata.data_position = value.at("data_position").get<std::uint64_t>();
  manifest.metadata.random_seed = value.at("random_seed").get<std::uint64_t>();
  manifest.metadata.random_counter = value.at("random_counter").get<std::uint64_t>();
  manifest.metadata.values = value.at("values").get<std::map<std::string, std::string>>();
  if (value.at("block_bytes").get<std::uint64_t>() != kChecksumBlockBytes) {
    throw std::invalid_argument("block_bytes is not " + std::to_string(kChecksumBlockBytes));
  }
  for (const json& file : value.at("files")) {
    manifest.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>()});
  }
  for (const json& item : value.at("items")) manifest.items.push_back(item_from_json(item));
  return manifest;
}

Status check_part(const SavedPart& part, std::size_t element_bytes, const Manifest& manifest) {
  if (part.range.begin < 0 || part.range.end < part.range.begin) return data_loss("a part's range is reversed");
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(part.range.size()), element_bytes, &bytes) ||
      part.file >= manifest.files.size() || part.offset > manifest.files[part.file].bytes ||
      bytes > manifest.files[part.file].bytes - part.offset) {
    return data_loss("a part lies outside its file");
  }
  if (part.checksums.size() != block_count(bytes)) return data_loss("a part has not one checksum per block");
  return Status::ok();
}

Status check_item(const SavedItem& item, const Manifest& manifest) {
  TRIREME_RETURN_IF_ERROR(ShardSpec::whole(item.shape).check());
  std::vector<Range> ranges;
  for (const SavedPart& part : item.parts) {
    TRIREME_RETURN_IF_ERROR(check_part(part, size_of(item.type), manifest));
    if (!ranges.empty() && part.range.begin < ranges.back().end) return data_loss("its parts are not in order");
    ranges.push_back(part.range);
  }
  return check_coverage(std::move(ranges), item.shape.elements());
}

Status check_manifest(const Manifest& manifest) {
  for (const SavedFile& file : manifest.files) {
    if (file.name.empty() || file.name[0] == '.' || file.name.find('/') != std::string::npos) {
      return data_loss("'" + file.name + "' is no name of a file in the folder");
    }
  }
  const std::string* previous = nullptr;
  for (const SavedItem& item : manifest.items) {
    if (previous != nullptr && item.name <= *previous) return data_loss("items are not sorted at '" + item.name + "'");
    previous = &item.name;
    const Status status = check_item(item, manifest);
    if (!status.is_ok()) return data_loss("item '" + item.name + "': " + status.message());
  }
  return Status::ok();
}

// The checksum covers the object without it, printed in the one way json prints it.
std::string checksum_of(const json& without) {
  return hex(hash64(without.dump()));
}

}  // namespace

std::uint64_t total_bytes(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const SavedFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

const SavedItem* find_item(const Manifest& manifest, std::string_view name) {
  const auto found =
      std::lower_bound(manifest.items.begin(), manifest.items.end(), name,
                       [](const SavedItem& item, std::string_view wanted) { return item.name < wanted; });
  return found != manifest.items.end() && found->name == name ? &*found : nullptr;
}

std::uint64_t block_count(std::uint64_t bytes) {
  return (bytes + kChecksumBlockBytes - 1) / kChecksumBlockBytes;
}

Result<std::string> manifest_to_json(const Manifest& manifest) {
  json files = json::array();
  for (const SavedFile& file : manifest.files) files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  json items = json::array();
  for (const SavedItem& item : manifest.items) items.push_back(to_json(item));
  json value = {{"format", kFormat},
                {"job", manifest.job_id},
                {"generation", manifest.generation},
                {"wall_ms", manifest.wall_ms},
                {"step", manifest.metadata.step},
                {"epoch", manifest.metadata.epoch},
                {"data_position", manifest.metadata.data_position},
                {"random_seed", manifest.metadata.random_seed},
                {"random_counter", manifest.metadata.random_counter},
                {"values", manifest.metadata.values},
                {"block_bytes", kChecksumBlockBytes},
                {"files", std::move(files)},
                {"items", std::move(items)}};
  try {
    value["checksum"] = checksum_of(value);
    return value.dump(1) + "\n";
  } catch (const json::exception& error) {
    return invalid_argument(std::string("checkpoint names and metadata values must be UTF-8: ") + error.what());
  }
}

Result<Manifest> parse_manifest(std::string_view text) {
  try {
    json value = json::parse(text);
    const std::string format = value.at("format").get<std::string>();
    if (format != kFormat) {
      return unsupported("the manifest's format is '" + format + "', this build reads '" + std::string(kFormat) + "'");
    }
    const std::string expected = value.at("checksum").get<std::string>();
    value.erase("checksum");
    if (const std::string actual = checksum_of(value); actual != expected) {
      return data_loss("the manifest's checksum is " + actual + ", it says " + expected);
    }
    Manifest manifest = manifest_from_json(value);
    TRIREME_RETURN_IF_ERROR(check_manifest(manifest));
    return manifest;
  } catch (const std::exception& error) {
    return data_loss(std::string("the manifest cannot be read: ") + error.what());
  }
}

}  // namespace trireme
