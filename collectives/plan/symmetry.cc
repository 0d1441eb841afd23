#include "collectives/plan/symmetry.h"

#include <algorithm>

namespace trireme::plan {
namespace {

int wrapped(std::int64_t value, int ranks) {
  const auto rest = static_cast<int>(value % ranks);
  return rest < 0 ? rest + ranks : rest;
}

bool is_shifted_peer(const Affine& a, const Affine& b, std::int64_t by, int ranks) {
  if (a.stride != b.stride || a.modulo != b.modulo) return false;
  if (a.modulo == ranks || (a.modulo == 0 && a.stride == 0))
    return wrapped(b.base - by, ranks) == wrapped(a.base, ranks);
  return a.modulo == 0 && b.base - by == a.base;
}

bool is_shifted_op(const Op& a, const Op& b, std::int64_t by, int ranks) {
  if (a.kind != b.kind || a.wire != b.wire || a.span != b.span) return false;
  // What ranks do in shared memory is replayed by all of them: they are few.
  if (a.kind >= OpKind::post || a.placement != Placement::here) return false;
  return !has_peer(a) || is_shifted_peer(a.peer, b.peer, by, ranks);
}

}  // namespace

bool is_shifted(const Program& a, const Program& b, int ranks) {
  const std::int64_t by = b.rank - a.rank;
  const auto same_loop = [](const Loop& x, const Loop& y) {
    return x.iterations == y.iterations && x.first_round == y.first_round && x.round_count == y.round_count;
  };
  const auto same_round = [](const Round& x, const Round& y) {
    return x.first_op == y.first_op && x.op_count == y.op_count;
  };
  return a.partition == b.partition && a.partition.bounds.empty() &&
         std::equal(a.loops.begin(), a.loops.end(), b.loops.begin(), b.loops.end(), same_loop) &&
         std::equal(a.rounds.begin(), a.rounds.end(), b.rounds.begin(), b.rounds.end(), same_round) &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
                    [&](const Op& x, const Op& y) { return is_shifted_op(x, y, by, ranks); });
}

std::vector<Program> representatives(const std::function<Program(int)>& program_of, const NetworkModel& network,
                                     bool use_symmetry) {
  const int ranks = network.ranks();
  std::vector<Program> programs;
  const auto extend = [&](int count) {
    for (int rank = static_cast<int>(programs.size()); rank < count; ++rank) programs.push_back(program_of(rank));
  };
  for (int period : use_symmetry ? network.periods() : std::vector<int>{ranks}) {
    extend(period);
    bool fits = true;
    for (int rank = period; rank < ranks && fits; ++rank) {
      const Program& model = programs[static_cast<std::size_t>(rank % period)];
      fits = static_cast<std::size_t>(rank) < programs.size()
                 ? is_shifted(model, programs[static_cast<std::size_t>(rank)], ranks)
                 : is_shifted(model, program_of(rank), ranks);
    }
    if (!fits) continue;
    programs.resize(static_cast<std::size_t>(period));
    break;
  }
  return programs;
}

}  // namespace trireme::plan
