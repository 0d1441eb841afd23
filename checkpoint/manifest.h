// Manifest: what is in a checkpoint folder. A value; docs/formats/checkpoint.md describes
// its JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/base/partition.h>
#include <trireme/base/status.h>
#include <trireme/checkpoint/state.h>
#include <trireme/tensor/tensor.h>

namespace trireme {

// Checksums are over blocks of this size (the last of a part is shorter), so a reader
// verifies what it reads and no more, with one small buffer.
inline constexpr std::uint64_t kChecksumBlockBytes = std::uint64_t{4} << 20;
inline constexpr std::string_view kManifestName = "manifest.json";

// A range of an item as it lies in one file.
struct SavedPart {
  Range range;                           // Elements of the flattened global tensor.
  std::uint32_t file = 0;                // Index in Manifest::files.
  std::uint64_t offset = 0;              // Byte in that file.
  std::vector<std::uint64_t> checksums;  // XXH3 of each block.
  bool operator==(const SavedPart&) const = default;
};

struct SavedItem {
  std::string name;
  DataType type = DataType::f32;
  Shape shape;
  std::vector<SavedPart> parts;  // Sorted by range, each element once.
  bool operator==(const SavedItem&) const = default;
};

struct SavedFile {
  std::string name;
  std::uint64_t bytes = 0;
  bool operator==(const SavedFile&) const = default;
};

struct Manifest {
  std::string job_id;
  std::uint64_t generation = 0;  // Grows with every commit in the directory.
  std::uint64_t wall_ms = 0;     // For people.
  CheckpointMetadata metadata;
  std::vector<SavedFile> files;  // One per rank that saved, in rank order.
  std::vector<SavedItem> items;  // Sorted by name.
};

std::uint64_t total_bytes(const Manifest& manifest);
const SavedItem* find_item(const Manifest& manifest, std::string_view name);
// Blocks of a part of `bytes`.
std::uint64_t block_count(std::uint64_t bytes);

// Errors: invalid_argument when a string is not UTF-8.
Result<std::string> manifest_to_json(const Manifest& manifest);
// Checks form, checksum and every invariant above, so that a parsed manifest can be used
// without further checks. Errors: data_loss; unsupported for a newer format.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace trireme
