#include "checkpoint/plan.h"

#include <algorithm>

namespace trireme {
namespace {

std::string range_text(std::int64_t begin, std::int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

}  // namespace

Range plan_write(const ShardSpec& shard) {
  const Range part = balanced_part(shard.elements(), shard.replica, shard.replicas);
  return {shard.begin + part.begin, shard.begin + part.end};
}

Result<std::vector<ReadSegment>> plan_read(const std::vector<Range>& saved, Range wanted) {
  std::vector<ReadSegment> segments;
  std::int64_t next = wanted.begin;
  // The first part that ends after the wanted range begins.
  auto part = std::upper_bound(saved.begin(), saved.end(), next,
                               [](std::int64_t element, const Range& range) { return element < range.end; });
  for (; next < wanted.end; ++part) {
    if (part == saved.end() || part->begin > next) {
      return data_loss("elements from " + std::to_string(next) + " on, of " + range_text(wanted.begin, wanted.end) +
                       " wanted, were never saved");
    }
    if (part->end <= next) continue;  // An empty part.
    const std::int64_t end = std::min(part->end, wanted.end);
    segments.push_back(
        {static_cast<std::size_t>(part - saved.begin()), next - part->begin, next - wanted.begin, end - next});
    next = end;
  }
  return segments;
}

Status check_coverage(std::vector<Range> parts, std::int64_t elements) {
  std::sort(parts.begin(), parts.end(),
            [](const Range& a, const Range& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::int64_t covered = 0;
  for (const Range& part : parts) {
    if (part.size() == 0) continue;
    if (part.begin < covered) {
      return data_loss("elements " + range_text(part.begin, std::min(covered, part.end)) + " are saved twice");
    }
    if (part.begin > covered) return data_loss("elements " + range_text(covered, part.begin) + " are saved by no rank");
    covered = part.end;
  }
  if (covered == elements) return Status::ok();
  if (covered < elements) return data_loss("elements " + range_text(covered, elements) + " are saved by no rank");
  return data_loss("elements " + range_text(elements, covered) + " lie beyond the tensor's end");
}

}  // namespace trireme
