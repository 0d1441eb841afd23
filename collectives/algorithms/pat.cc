// PAT (parallel aggregated trees): like Bruck, but the farthest first, so that few parts
// travel far and many travel near.
//
// Each part is spread by its own binomial tree whose first hop is the longest: the rank at
// distance o behind a part's owner gets it from the one at o without o's lowest bit. All
// trees run at once: in the step of distance d a rank sends d further on the parts of the
// owners 0, 2d, 4d, ... before it, packed into messages of a bounded size. Reduce-scatter
// is the same in reverse: partial sums travel from near to far, added up on their way.
// Cost for P ranks and parts of B bytes: (P - 1) B bytes in at least log2 P messages, of
// which the longest distance carries one part only.
// Even parts only. Source: Jeaugey, "PAT: a new algorithm for all-gather and
// reduce-scatter operations at scale", 2025.
#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/algorithms/builder.h"

namespace trireme::plan {
namespace {

constexpr std::int64_t kMessageBytes = 256 * 1024;
const Affine kPart = fixed(0);  // All parts are as long as the first.

// Parts in one message, at most.
int parts_of_message(const Request& request) {
  const std::int64_t part = std::max<std::int64_t>(1, request.count * (request.wide ? 4 : request.element_bytes));
  return static_cast<int>(std::clamp<std::int64_t>(kMessageBytes / part, 1, std::max(1, request.ranks / 2)));
}

// The owners' distances o whose parts go from o to o + d, in batches of one message.
std::vector<std::vector<int>> batches_of(const Request& request, int d) {
  std::vector<std::vector<int>> batches;
  const auto most = static_cast<std::size_t>(parts_of_message(request));
  for (int o = 0; o + d < request.ranks; o += 2 * d) {
    if (batches.empty() || batches.back().size() == most) batches.emplace_back();
    batches.back().push_back(o);
  }
  return batches;
}

int longest_distance(const Request& request) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(request.ranks - 1)));
}

Program all_gather(const Request& request, int rank) {
  const int n = request.ranks;
  const int most = parts_of_message(request);
  Builder builder(request, rank, n);
  builder.scratch(2 * most);
  builder.loop(1).add(copy(output(fixed(rank)), input(fixed(0)), kPart));
  for (int d = longest_distance(request); d >= 1; d /= 2) {
    for (const std::vector<int>& batch : batches_of(request, d)) {
      const int parts = static_cast<int>(batch.size());
      builder.loop(1);
      for (int i = 0; i < parts; ++i)
        builder.add(copy(scratch(fixed(i)), output(fixed((rank + n - batch[i]) % n)), kPart));
      builder.loop(1)
          .add(spanning(parts, send(scratch(fixed(0)), fixed((rank + d) % n), kPart)))
          .add(spanning(parts, receive(scratch(fixed(most)), fixed((rank + n - d) % n), kPart, Wire::accumulator)));
      builder.loop(1);
      for (int i = 0; i < parts; ++i) {
        const int owner = (rank + 2 * n - d - batch[i]) % n;
        builder.add(copy(output(fixed(owner)), scratch(fixed(most + i)), kPart));
      }
    }
  }
  return builder.take();
}

// Slots 0 .. n-1: partial sums by how far their owner is before this rank.
Program reduce_scatter(const Request& request, int rank) {
  const int n = request.ranks;
  const int most = parts_of_message(request);
  const auto own = [&](int distance) { return input(fixed((rank + n - distance) % n)); };
  Builder builder(request, rank, n);
  builder.scratch(n + 2 * most);
  const int longest = longest_distance(request);
  for (int d = 1; d <= longest; d *= 2) {
    // A rank has added something before, unless this is the first step or its subtree is itself.
    const auto held = [&](int distance) {
      return d == 1 || distance + 1 >= n ? own(distance) : scratch(fixed(distance));
    };
    for (const std::vector<int>& batch : batches_of(request, d)) {
      const int parts = static_cast<int>(batch.size());
      builder.loop(1);
      for (int i = 0; i < parts; ++i) builder.add(copy(scratch(fixed(n + i)), held(batch[i] + d), kPart));
      builder.loop(1)
          .add(spanning(parts, send(scratch(fixed(n)), fixed((rank + n - d) % n), kPart)))
          .add(spanning(parts, receive(scratch(fixed(n + most)), fixed((rank + d) % n), kPart, Wire::accumulator)));
      builder.loop(1);
      for (int i = 0; i < parts; ++i) {
        const bool last = d == longest;
        builder.add(reduce(last ? output(fixed(0)) : scratch(fixed(batch[i])), held(batch[i]),
                           scratch(fixed(n + most + i)), kPart, last));
      }
    }
  }
  return builder.take();
}

constexpr Makers kMakers = {.reduce_scatter = reduce_scatter, .all_gather = all_gather};

bool supports(const Request& request) {
  return kMakers.covers(request) && !request.ordered && !request.uneven();
}

Program program(const Request& request, int rank) {
  return kMakers.make(request, rank);
}

double cost(const Request& request, const Network& network) {
  const double part = static_cast<double>(request.count);
  const bool gathers_parts = request.collective == Collective::all_gather;
  const double bytes = gathers_parts ? element_bytes(request, part) : accumulator_bytes(request, part);
  double seconds = gathers_parts ? bytes * network.gamma_s_per_byte : 0;
  for (int d = 1; d <= longest_distance(request); d *= 2) {
    for (const std::vector<int>& batch : batches_of(request, d)) {
      const double parts = static_cast<double>(batch.size());
      seconds += network.alpha_s + parts * bytes * (network.beta_s_per_byte + 2 * network.gamma_s_per_byte);
    }
  }
  return seconds;
}

}  // namespace

const Algorithm kPat = {"pat", "reduce_scatter, all_gather of even parts; any number of ranks", supports, program,
                        cost};

}  // namespace trireme::plan
