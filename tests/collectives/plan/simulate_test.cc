#include "collectives/plan/api/simulate.h"

#include <gtest/gtest.h>

namespace trireme::plan {
namespace {

// Rank 0 sends `rounds` messages to rank 1, one a round.
Plan stream_plan(int rounds) {
  Plan plan{{Collective::broadcast, 2, 0, 1000, 4, false}, {}};
  for (int rank = 0; rank < 2; ++rank) {
    Program program;
    program.rank = rank;
    program.input = program.output = program.partition = {1000, 1};
    Op op;
    op.kind = rank == 0 ? OpKind::send : OpKind::receive;
    op.peer = fixed(1 - rank);
    (rank == 0 ? op.a : op.target) = Reference{rank == 0 ? Buffer::input : Buffer::output, fixed(0)};
    program.ops = {op};
    program.rounds = {{0, 1}};
    program.loops = {{rounds, 0, 1}};
    plan.programs.push_back(program);
  }
  return plan;
}

TEST(Simulate, OneMessageIsLatencyAndTransfer) {
  const Simulation result = simulate(stream_plan(1), {1e-6, 1e-9, 0});
  EXPECT_DOUBLE_EQ(result.seconds, 1e-6 + 4000e-9);
  EXPECT_EQ(result.bytes_sent_max, 4000);
  EXPECT_EQ(result.messages_max, 1);
}

TEST(Simulate, AStreamHidesLatency) {
  const Simulation result = simulate(stream_plan(10), {1e-6, 1e-9, 0});
  EXPECT_NEAR(result.seconds, 1e-6 + 10 * 4000e-9, 1e-12);
  EXPECT_EQ(result.messages_max, 10);
}

}  // namespace
}  // namespace trireme::plan
