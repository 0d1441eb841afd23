#include "checkpoint/staging.h"

#include <cstring>
#include <set>
#include <string_view>

#include "checkpoint/plan.h"

namespace trireme {
namespace {

constexpr std::uint64_t kFileAlignment = 64;

Status check_item(const CheckpointItem& item, std::set<std::string_view>& names) {
  const std::string what = "checkpoint item '" + item.name + "'";
  if (item.name.empty()) return invalid_argument("a checkpoint item has no name");
  if (!names.insert(item.name).second) return invalid_argument(what + ": there are two of that name on this rank");
  TRIREME_RETURN_IF_ERROR(item.shard.check().with_context(what));
  if (item.data == nullptr && item.shard.elements() > 0) {
    return invalid_argument(what + ": its memory is a null pointer");
  }
  return Status::ok();
}

}  // namespace

Result<StagingPlan> plan_staging(const CheckpointState& state) {
  StagingPlan plan;
  std::set<std::string_view> names;
  for (const CheckpointItem& item : state.items) {
    TRIREME_RETURN_IF_ERROR(check_item(item, names));
    ShardEntry entry;
    entry.name = item.name;
    entry.type = item.type;
    entry.shape = item.shard.global_shape;
    entry.range = plan_write(item.shard);
    entry.offset = plan.bytes;
    const std::uint64_t bytes = static_cast<std::uint64_t>(entry.range.size()) * size_of(item.type);
    const auto skipped = static_cast<std::size_t>(entry.range.begin - item.shard.begin) * size_of(item.type);
    plan.pieces.push_back({bytes == 0 ? nullptr : static_cast<const std::byte*>(item.data) + skipped, bytes});
    plan.entries.push_back(std::move(entry));
    plan.bytes = (plan.bytes + bytes + kFileAlignment - 1) / kFileAlignment * kFileAlignment;
  }
  return plan;
}

Status Staging::reserve(std::uint64_t bytes) {
  if (arena_ && arena_->capacity_bytes() >= bytes) return Status::ok();
  arena_.reset();  // The old one first: two would not fit where one just does.
  data_ = nullptr;
  TRIREME_ASSIGN_OR_RETURN(Arena arena, Arena::create("checkpoint staging", static_cast<std::size_t>(bytes)));
  arena_.emplace(std::move(arena));
  TRIREME_ASSIGN_OR_RETURN(void* memory, arena_->allocate(static_cast<std::size_t>(bytes)));
  data_ = static_cast<std::byte*>(memory);
  return Status::ok();
}

Status Staging::copy(const StagingPlan& plan) {
  TRIREME_RETURN_IF_ERROR(reserve(plan.bytes));
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const StagingPlan::Piece& piece = plan.pieces[i];
    if (piece.bytes > 0) std::memcpy(data_ + plan.entries[i].offset, piece.source, piece.bytes);
    // The gap to the next entry goes to disk too: it must not hold what was there before.
    const std::uint64_t end = plan.entries[i].offset + piece.bytes;
    const std::uint64_t next = i + 1 < plan.entries.size() ? plan.entries[i + 1].offset : plan.bytes;
    if (next > end) std::memset(data_ + end, 0, next - end);
  }
  return Status::ok();
}

}  // namespace trireme
