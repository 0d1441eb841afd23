#include "checkpoint/assembly.h"

#include <algorithm>
#include <map>

#include "checkpoint/plan.h"

namespace trireme {
namespace {

struct Gathered {
  SavedItem item;
  std::size_t first_rank = 0;
};

std::string description(DataType type, const Shape& shape) {
  return std::string(to_string(type)) + " " + shape.to_string();
}

Status check_agreement(const std::vector<ShardTable>& tables) {
  for (std::size_t rank = 0; rank < tables.size(); ++rank) {
    if (!tables[rank].status.is_ok()) return tables[rank].status.with_context("rank " + std::to_string(rank));
  }
  for (std::size_t rank = 1; rank < tables.size(); ++rank) {
    if (tables[rank].step != tables[0].step) {
      return mismatch("rank 0 saves step " + std::to_string(tables[0].step) + ", rank " + std::to_string(rank) +
                      " step " + std::to_string(tables[rank].step) +
                      ": every rank must call save() with the same step");
    }
    if (tables[rank].metadata_hash != tables[0].metadata_hash) {
      return mismatch("the checkpoint metadata of rank 0 and rank " + std::to_string(rank) +
                      " differ: data position, random numbers and values must be the same on all ranks");
    }
  }
  return Status::ok();
}

Status add_entry(std::map<std::string, Gathered>& items, ShardEntry& entry, std::size_t rank) {
  const auto [found, is_new] = items.try_emplace(entry.name);
  SavedItem& item = found->second.item;
  if (is_new) {
    item.name = entry.name;
    item.type = entry.type;
    item.shape = entry.shape;
    found->second.first_rank = rank;
  } else if (item.type != entry.type || !(item.shape == entry.shape)) {
    return mismatch("checkpoint item '" + entry.name + "' is " + description(item.type, item.shape) + " on rank " +
                    std::to_string(found->second.first_rank) + " and " + description(entry.type, entry.shape) +
                    " on rank " + std::to_string(rank));
  }
  if (entry.range.size() > 0) {
    item.parts.push_back({entry.range, static_cast<std::uint32_t>(rank), entry.offset, std::move(entry.checksums)});
  }
  return Status::ok();
}

}  // namespace

Result<Manifest> assemble_manifest(std::vector<ShardTable> tables) {
  TRIREME_RETURN_IF_ERROR(check_agreement(tables));
  Manifest manifest;
  std::map<std::string, Gathered> items;
  for (std::size_t rank = 0; rank < tables.size(); ++rank) {
    manifest.files.push_back({tables[rank].file, tables[rank].file_bytes});
    for (ShardEntry& entry : tables[rank].entries) TRIREME_RETURN_IF_ERROR(add_entry(items, entry, rank));
  }
  for (auto& [name, gathered] : items) {
    SavedItem& item = gathered.item;
    std::sort(item.parts.begin(), item.parts.end(),
              [](const SavedPart& a, const SavedPart& b) { return a.range.begin < b.range.begin; });
    std::vector<Range> ranges;
    for (const SavedPart& part : item.parts) ranges.push_back(part.range);
    TRIREME_RETURN_IF_ERROR(check_coverage(std::move(ranges), item.shape.elements())
                                .with_context("checkpoint item '" + name + "' of shape " + item.shape.to_string() +
                                              " (check the ShardSpecs of the ranks)"));
    manifest.items.push_back(std::move(item));
  }
  return manifest;
}

}  // namespace trireme
