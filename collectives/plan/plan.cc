#include "collectives/plan/api/plan.h"

#include <algorithm>

namespace trireme::plan {

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce:
      return "reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::barrier:
      return "barrier";
  }
  return "unknown";
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

std::int64_t input_elements(const Request& request) {
  return request.collective == Collective::reduce_scatter ? request.count * request.ranks : request.count;
}

std::int64_t output_elements(const Request& request) {
  return request.collective == Collective::all_gather ? request.count * request.ranks : request.count;
}

std::size_t widest_round(const Program& program) {
  std::size_t widest = 0;
  for (const Round& round : program.rounds) widest = std::max<std::size_t>(widest, round.op_count);
  return widest;
}

}  // namespace trireme::plan
