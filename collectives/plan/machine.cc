#include "collectives/plan/machine.h"

#include <fmt/core.h>

namespace trireme::plan {

std::string Machine::where() const {
  return fmt::format("rank {}, loop {}, iteration {}, round {}", program->rank, cursor.loop(), cursor.iteration(),
                     cursor.round());
}

Result<Value> read_value(const Machine& machine, const Reference& reference, std::int32_t iteration, std::int32_t i) {
  TRIREME_ASSIGN_OR_RETURN(const std::size_t cell, machine.memory.cell(reference, iteration, i));
  const Value& value = machine.memory.value(cell);
  if (!value.readable) {
    return invalid_argument(fmt::format("a chunk of rank {} is read before it is written", machine.program->rank));
  }
  return value;
}

Result<Value> combine_values(const Request& request, const Value& left, const Value& right) {
  if (left.chunk != right.chunk)
    return invalid_argument(fmt::format("combines chunks {} and {}", left.chunk, right.chunk));
  if (left.finished || right.finished) return invalid_argument("combines a finished value");
  if (left.contributions.intersects(right.contributions)) return invalid_argument("a contribution is counted twice");
  if (request.ordered && left.contributions.last() > right.contributions.first()) {
    return invalid_argument("combines a rank's contribution in front of a lower rank's");
  }
  Value value = left;
  value.contributions.add(right.contributions);
  value.expression = combined_expression(left.expression, right.expression);
  return value;
}

Status store_value(const Request& request, Machine& owner, const Op& op, std::int32_t iteration, std::int32_t i,
                   Value value) {
  if (op.finish) {
    if (!reduces(request.collective)) return invalid_argument("finishes though nothing is reduced");
    if (value.finished) return invalid_argument("finishes twice");
    if (value.contributions != owner.memory.required(value.chunk)) {
      return invalid_argument(fmt::format("finishes with {} contributions", value.contributions.size()));
    }
    value.finished = true;
  }
  const bool partial = value.contributions.size() > 1 && !value.finished;
  if (request.wide && partial && op.target.buffer != Buffer::scratch) {
    return invalid_argument("rounds an unfinished partial result");
  }
  TRIREME_ASSIGN_OR_RETURN(const std::size_t cell, owner.memory.cell(op.target, iteration, i));
  owner.memory.value(cell) = std::move(value);
  return {};
}

}  // namespace trireme::plan
