#include "collectives/plan/check_shape.h"

#include <algorithm>

#include <fmt/core.h>

namespace trireme::plan {
namespace {

Status check_layouts(const Request& request, const Program& program, int rank) {
  const auto whole = [](const Layout& layout, std::int64_t elements) {
    const bool bounds = layout.bounds.empty() || (layout.bounds.size() == static_cast<std::size_t>(layout.chunks) + 1 &&
                                                  layout.bounds.front() == 0 && layout.bounds.back() == elements &&
                                                  std::is_sorted(layout.bounds.begin(), layout.bounds.end()));
    return layout.chunks >= 1 && layout.elements == elements && bounds;
  };
  // The uneven parts of an all_to_all are known to their two ranks only.
  const bool own = request.collective == Collective::all_to_all && request.uneven();
  const std::int64_t input = own ? program.input.elements : input_elements(request, rank);
  const std::int64_t output = own ? program.output.elements : output_elements(request, rank);
  const bool scratch = program.scratch_slots >= 0 &&
                       (!program.scratch_as_partition || program.scratch_slots <= program.partition.chunks);
  if (program.rank != rank || !whole(program.input, input) || !whole(program.output, output) ||
      !whole(program.partition, program.partition.elements) || !scratch) {
    return invalid_argument(fmt::format("program {}: rank or layouts do not fit the request", rank));
  }
  std::int32_t expected = program.input.chunks;
  if (gathers(request.collective)) expected *= request.ranks;
  if (scatters(request.collective)) expected /= request.ranks;
  if (program.output.chunks != expected) {
    return invalid_argument(
        fmt::format("program {}: {} output chunks, expected {}", rank, program.output.chunks, expected));
  }
  return {};
}

}  // namespace

Status check_shape(const Plan& plan) {
  const Request& request = plan.request;
  if (plan.programs.size() != static_cast<std::size_t>(request.ranks)) {
    return invalid_argument(fmt::format("the plan has {} programs for {} ranks", plan.programs.size(), request.ranks));
  }
  for (std::size_t rank = 0; rank < plan.programs.size(); ++rank) {
    const Program& program = plan.programs[rank];
    TRIREME_RETURN_IF_ERROR(check_layouts(request, program, static_cast<int>(rank)));
    for (const Loop& loop : program.loops) {
      if (std::size_t{loop.first_round} + loop.round_count > program.rounds.size()) {
        return invalid_argument(fmt::format("program {}: a loop reaches past the rounds", rank));
      }
    }
    for (const Round& round : program.rounds) {
      if (std::size_t{round.first_op} + round.op_count > program.ops.size()) {
        return invalid_argument(fmt::format("program {}: a round reaches past the operations", rank));
      }
    }
  }
  return {};
}

}  // namespace trireme::plan
