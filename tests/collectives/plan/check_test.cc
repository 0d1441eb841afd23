// The checker accepts hand-written right plans and names what is wrong with bad ones.
#include "collectives/plan/api/check.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::plan {
namespace {

// Two ranks swap their inputs and reduce: rank 0's operand first on both.
Plan exchange_plan(std::int64_t count = 5) {
  Plan plan{{Collective::all_reduce, 2, 0, count, 4, false}, {}};
  for (int rank = 0; rank < 2; ++rank) {
    Program program;
    program.rank = rank;
    program.input = program.output = program.partition = {count, 1};
    program.ops.resize(2);
    program.ops[0].kind = OpKind::send;
    program.ops[0].peer = fixed(1 - rank);
    program.ops[0].a = {Buffer::input, fixed(0)};
    program.ops[1].kind = OpKind::receive_reduce;
    program.ops[1].peer = fixed(1 - rank);
    program.ops[1].a = {Buffer::input, fixed(0)};
    program.ops[1].target = {Buffer::output, fixed(0)};
    program.ops[1].incoming_first = rank == 1;
    program.ops[1].finish = true;
    program.rounds = {{0, 2}};
    program.loops = {{1, 0, 1}};
    plan.programs.push_back(program);
  }
  return plan;
}

void expect_refused(const Plan& plan, bool in_place, const std::string& part) {
  const Status status = check_plan(plan, in_place);
  ASSERT_FALSE(status.is_ok()) << "expected: " << part;
  EXPECT_NE(status.message().find(part), std::string::npos) << status.to_string();
}

TEST(Check, AcceptsAnExchange) {
  EXPECT_TRUE(check_plan(exchange_plan(), false).is_ok()) << check_plan(exchange_plan(), false).to_string();
  EXPECT_TRUE(check_plan(exchange_plan(0), false).is_ok());
}

TEST(Check, RefusesOverwritingWhileSentInPlace) {
  expect_refused(exchange_plan(), true, "overwritten while");
}

TEST(Check, RefusesAnotherOrderOfOperands) {
  Plan plan = exchange_plan();
  plan.programs[1].ops[1].incoming_first = false;
  expect_refused(plan, false, "another order");
}

TEST(Check, RefusesDeadlock) {
  Plan plan = exchange_plan();
  for (Program& program : plan.programs) {
    program.rounds = {{0, 1}, {1, 1}};
    program.loops = {{1, 0, 2}};
  }
  expect_refused(plan, false, "deadlock");
}

TEST(Check, RefusesWhatIsMissingOrDouble) {
  Plan unfinished = exchange_plan();
  unfinished.programs[0].ops[1].finish = false;
  expect_refused(unfinished, false, "never finished");
  Plan missing = exchange_plan();
  missing.programs[0].ops[1].kind = OpKind::receive;
  missing.programs[0].ops[1].a = {};
  expect_refused(missing, false, "finishes with 1 contributions");
  Plan doubled = exchange_plan();
  doubled.programs[0].loops[0].iterations = 2;
  expect_refused(doubled, false, "deadlock");
}

TEST(Check, RefusesBadReferences) {
  Plan peer = exchange_plan();
  peer.programs[0].ops[0].peer = fixed(0);
  expect_refused(peer, false, "peer 0");
  Plan chunk = exchange_plan();
  chunk.programs[1].ops[0].a.chunk = fixed(1);
  expect_refused(chunk, false, "does not exist");
  Plan length = exchange_plan();
  length.programs[1].partition.elements = 4;
  expect_refused(length, false, "4 elements for a chunk of 5");
  Plan writes = exchange_plan();
  writes.programs[0].ops[1].target.buffer = Buffer::input;
  expect_refused(writes, false, "writes the input");
  Plan wire = exchange_plan();
  wire.programs[0].ops[0].wire = Wire::accumulator;
  expect_refused(wire, false, "representation");
}

TEST(Check, RefusesRoundingPartialResults) {
  Plan plan = exchange_plan();
  plan.request.wide = true;
  EXPECT_TRUE(check_plan(plan, false).is_ok());
  plan.programs[0].ops[1].finish = false;
  expect_refused(plan, false, "rounds an unfinished");
}

TEST(Check, RefusesReadingBeforeWriting) {
  Plan plan = exchange_plan();
  plan.programs[0].ops[0].a.buffer = Buffer::output;
  plan.programs[0].rounds = {{0, 1}, {1, 1}};
  plan.programs[0].loops = {{1, 0, 2}};
  plan.programs[1].rounds = {{1, 1}, {0, 1}};
  plan.programs[1].loops = {{1, 0, 2}};
  expect_refused(plan, false, "before it is written");
}

TEST(Check, RefusesABarrierThatKnowsTooLittle) {
  Plan plan{{Collective::barrier, 3, 0, 0, 1, false}, {}};
  for (int rank = 0; rank < 3; ++rank) {
    Program program;
    program.rank = rank;
    program.ops.resize(2);
    program.ops[0].kind = OpKind::send;
    program.ops[0].peer = fixed((rank + 1) % 3);
    program.ops[0].a = {Buffer::input, fixed(0)};
    program.ops[1].kind = OpKind::receive;
    program.ops[1].peer = fixed((rank + 2) % 3);
    program.ops[1].target = {Buffer::output, fixed(0)};
    program.rounds = {{0, 2}};
    program.loops = {{1, 0, 1}};
    plan.programs.push_back(program);
  }
  expect_refused(plan, false, "knowing only of 2 ranks");
}

TEST(Print, NamesBuffersAndPeers) {
  const std::string text = print_program(exchange_plan().programs[1]);
  EXPECT_NE(text.find("send input[0] to 0"), std::string::npos) << text;
  EXPECT_NE(text.find("output[0] = (from 0) + input[0], finished"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::plan
