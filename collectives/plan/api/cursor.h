// Cursor: walks the rounds of a program in order of execution. Used by everything that
// interprets a plan (checker, simulator, executor), so that all agree on the order.
#pragma once

#include <span>

#include "collectives/plan/api/plan.h"

namespace trireme::plan {

class Cursor {
 public:
  Cursor() = default;
  // REQUIRES: the program outlives the cursor and does not change.
  explicit Cursor(const Program& program) : program_(&program) { skip_empty(); }

  bool at_end() const { return loop_ >= program_->loops.size(); }
  // REQUIRES: !at_end() for all below.
  std::int32_t iteration() const { return iteration_; }
  std::size_t loop() const { return loop_; }
  std::uint32_t round() const { return round_; }
  std::span<const Op> ops() const {
    const Round& round = program_->rounds[program_->loops[loop_].first_round + round_];
    return {program_->ops.data() + round.first_op, round.op_count};
  }
  void next() {
    if (++round_ < program_->loops[loop_].round_count) return;
    round_ = 0;
    if (++iteration_ < program_->loops[loop_].iterations) return;
    iteration_ = 0;
    ++loop_;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (!at_end() && (program_->loops[loop_].iterations <= 0 || program_->loops[loop_].round_count == 0)) ++loop_;
  }
  const Program* program_ = nullptr;
  std::size_t loop_ = 0;
  std::int32_t iteration_ = 0;
  std::uint32_t round_ = 0;
};

}  // namespace trireme::plan
