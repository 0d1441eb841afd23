// Machine: one rank in the checker's execution, and the rules for values it computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "collectives/plan/api/cursor.h"
#include "collectives/plan/memory.h"

namespace trireme::plan {

// What a rank has posted, by chunk; nothing for an expose or a fence.
struct Posting {
  OpKind kind = OpKind::post;
  std::vector<Value> values;
  std::vector<std::int64_t> elements;
  RankSet knowledge;
};

struct Machine {
  Machine(const Request& request, const Program& code, bool in_place)
      : program(&code), memory(request, code, in_place), cursor(code), knowledge(request.ranks) {
    knowledge.insert(code.rank);
  }
  const Program* program;
  Memory memory;
  Cursor cursor;
  std::vector<bool> done;      // Of the operations of the current round.
  RankSet knowledge;           // Ranks whose beginning is known to lie in the past.
  RankSet knowledge_at_round;  // As of the start of the round.
  std::vector<Posting> posts;
  bool waits = false;    // Its last post is an expose or a fence that is not over.
  bool exposed = false;  // All ranks are.
  int fences = 0;        // Passed.

  std::string where() const;
  // Elements of chunk `i` of the operation's span.
  std::int64_t part_size(const Op& op, std::int32_t i) const {
    return program->partition.part(op.length.at(cursor.iteration()) + i).size();
  }
};

// Errors: invalid_argument: before it was written.
Result<Value> read_value(const Machine& machine, const Reference& reference, std::int32_t iteration, std::int32_t i);
// Errors: invalid_argument: other chunks, a finished value, a contribution twice, an order that is not permitted.
Result<Value> combine_values(const Request& request, const Value& left, const Value& right);
// Chunk `i` of the operation's target becomes `value`, in the memory of `owner`; `iteration`
// is that of the rank whose operation it is. Errors: invalid_argument: finishes wrongly, rounds too early.
Status store_value(const Request& request, Machine& owner, const Op& op, std::int32_t iteration, std::int32_t i,
                   Value value);

}  // namespace trireme::plan
