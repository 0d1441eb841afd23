// The checker's rules for what ranks of one host do through shared memory: posts, exposed
// buffers and fences (plan.h says what they mean).
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "collectives/plan/machine.h"

namespace trireme::plan {

// Reads what another rank posted or exposed.
bool fetches(const Op& op);
// Any operation of the kinds above, or one whose target lies with others.
bool uses_shared_memory(const Op& op);
// What can be said of one such operation by itself: buffers, sizes, the request's leave.
Status check_shared_op(const Request& request, const Program& program, const Op& op, std::int32_t iteration);

class SharedMemoryRules {
 public:
  // REQUIRES: both outlive this.
  SharedMemoryRules(const Request& request, std::vector<Machine>& machines) : request_(request), machines_(machines) {}

  // Carries an operation out if it can be now. Returns whether it is done.
  Result<bool> try_op(Machine& machine, const Op& op);
  // A copy or a reduction within a rank: what it touches may be exposed.
  Status note_local(const Machine& machine, const Op& op);
  // No rank ends while others may still use its memory.
  Status check_ends() const;

 private:
  // Between which fences whose memory's cell is touched,
  using Place = std::tuple<int, int, std::size_t>;
  // and by which operations: by one that writes, or by any number that read.
  struct Touched {
    std::set<std::pair<int, std::size_t>> readers;
    std::set<std::pair<int, std::size_t>> writers;
  };
  bool all_have_posted(std::size_t number) const;
  Status post(Machine& machine, const Op& op);
  Result<bool> wait(Machine& machine, const Op& op);
  Result<bool> fetch(Machine& machine, const Op& op);
  Result<Value> fetched(const Machine& machine, const Op& op, int source, std::int32_t i);
  Status store(Machine& machine, const Op& op, std::int32_t i, const Value& value);
  Status touch(const Machine& machine, const Machine& owner, const Op& op, std::size_t cell, bool writes);

  const Request& request_;
  std::vector<Machine>& machines_;
  std::map<Place, Touched> touched_;
  int last_remote_ = -1;  // Fences passed by a rank that touched another's memory, at most.
};

}  // namespace trireme::plan
