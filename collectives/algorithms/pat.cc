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

int at(const std::vector<int>& batch, int i) {
  return batch[static_cast<std::size_t>(i)];
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
    const Affine to = fixed((rank + d) % n);
    const Affine from = fixed((rank + n - d) % n);
    const auto sent = [&](int distance) { return output(fixed((rank + n - distance) % n)); };
    const auto received = [&](int distance) { return output(fixed((rank + 2 * n - d - distance) % n)); };
    for (const std::vector<int>& batch : batches_of(request, d)) {
      const int parts = static_cast<int>(batch.size());
      builder.loop(1);
      if (parts == 1) {  // Nothing to pack.
        builder.add(send(sent(batch[0]), to, kPart)).add(receive(received(batch[0]), from, kPart));
        continue;
      }
      for (int i = 0; i < parts; ++i) builder.add(copy(scratch(fixed(i)), sent(at(batch, i)), kPart));
      builder.loop(1)
          .add(spanning(parts, send(scratch(fixed(0)), to, kPart)))
          .add(spanning(parts, receive(scratch(fixed(most)), from, kPart, Wire::accumulator)));
      builder.loop(1);
      for (int i = 0; i < parts; ++i) builder.add(copy(received(at(batch, i)), scratch(fixed(most + i)), kPart));
    }
  }
  return builder.take();
}

// Whether a rank has added nothing yet, in the step of distance `d`, to the part of the
// owner `distance` before it: in the first step, and when its subtree is itself.
bool holds_input(const Request& request, int d, int distance) {
  return d == 1 || distance + 1 >= request.ranks;
}

// Slots 0 .. n-1: partial sums by how far their owner is before this rank.
Program reduce_scatter(const Request& request, int rank) {
  const int n = request.ranks;
  const int most = parts_of_message(request);
  const int longest = longest_distance(request);
  Builder builder(request, rank, n);
  builder.scratch(n + 2 * most);
  for (int d = 1; d <= longest; d *= 2) {
    const Affine to = fixed((rank + n - d) % n);
    const Affine from = fixed((rank + d) % n);
    const bool last = d == longest;
    const auto held = [&](int distance) {
      return holds_input(request, d, distance) ? input(fixed((rank + n - distance) % n)) : scratch(fixed(distance));
    };
    const auto sum = [&](int distance) { return last ? output(fixed(0)) : scratch(fixed(distance)); };
    for (const std::vector<int>& batch : batches_of(request, d)) {
      const int parts = static_cast<int>(batch.size());
      builder.loop(1);
      if (parts == 1) {  // Nothing to pack.
        const int o = batch[0];
        const Wire wire = holds_input(request, d, o + d) ? Wire::element : Wire::accumulator;
        builder.add(send(held(o + d), to, kPart)).add(receive_after(sum(o), held(o), from, kPart, wire, last));
        continue;
      }
      for (int i = 0; i < parts; ++i) builder.add(copy(scratch(fixed(n + i)), held(at(batch, i) + d), kPart));
      builder.loop(1)
          .add(spanning(parts, send(scratch(fixed(n)), to, kPart)))
          .add(spanning(parts, receive(scratch(fixed(n + most)), from, kPart, Wire::accumulator)));
      builder.loop(1);
      for (int i = 0; i < parts; ++i) {
        const int o = at(batch, i);
        builder.add(reduce(sum(o), held(o), scratch(fixed(n + most + i)), kPart, last));
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
  const double element = element_bytes(request, part);
  const double accumulator = accumulator_bytes(request, part);
  const bool gathers_parts = request.collective == Collective::all_gather;
  double seconds = gathers_parts ? element * network.gamma_s_per_byte : 0;
  for (int d = 1; d <= longest_distance(request); d *= 2) {
    for (const std::vector<int>& batch : batches_of(request, d)) {
      const auto parts = static_cast<double>(batch.size());
      const bool packed = batch.size() > 1;
      const bool inputs = gathers_parts || (!packed && holds_input(request, d, batch[0] + d));
      const double bytes = parts * (inputs ? element : accumulator);
      const double work = packed ? 2 * parts * element : (gathers_parts ? 0 : bytes);
      seconds += network.alpha_s + bytes * network.beta_s_per_byte + work * network.gamma_s_per_byte;
    }
  }
  return seconds;
}

}  // namespace

const Algorithm kPat = {"pat", "reduce_scatter, all_gather of even parts; any number of ranks", supports, program,
                        cost};

}  // namespace trireme::plan
