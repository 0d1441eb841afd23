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

// Two ranks that post their inputs and add up what both have posted.
Plan posting_plan(std::int64_t count = 5) {
  Plan plan{{Collective::all_reduce, 2, 0, count, 4, false}, {}};
  plan.request.shared_memory = plan.request.windows = true;
  for (int rank = 0; rank < 2; ++rank) {
    Program program;
    program.rank = rank;
    program.input = program.output = program.partition = {count, 1};
    program.ops.resize(2);
    program.ops[0].kind = OpKind::post;
    program.ops[0].a = {Buffer::input, fixed(0)};
    program.ops[1].kind = OpKind::fetch_reduce;
    program.ops[1].a = {Buffer::posted, fixed(0)};
    program.ops[1].target = {Buffer::output, fixed(0)};
    program.ops[1].finish = true;
    program.rounds = {{0, 1}, {1, 1}};
    program.loops = {{1, 0, 2}};
    plan.programs.push_back(program);
  }
  return plan;
}

TEST(Check, PostsAreReadAfterTheyAreMade) {
  EXPECT_TRUE(check_plan(posting_plan(), false).is_ok()) << check_plan(posting_plan(), false).to_string();
  EXPECT_TRUE(check_plan(posting_plan(), true).is_ok());
  Plan apart = posting_plan();
  apart.request.shared_memory = false;
  expect_refused(apart, false, "shared memory");
  expect_refused(posting_plan(kMostPostedBytes / 4 + 1), false, "more than");
  Plan silent = posting_plan();
  silent.programs[1].rounds[0].op_count = 0;
  expect_refused(silent, false, "before it has posted");
  Plan absent = posting_plan();
  absent.programs[1].ops[1].a.chunk = fixed(1);
  expect_refused(absent, false, "not number 1");
  Plan left = posting_plan();
  left.programs[1].loops = {};
  expect_refused(left, false, "deadlock");
}

// Two ranks that expose their buffers and store the sum of their half in both outputs.
Plan exposing_plan() {
  Plan plan{{Collective::all_reduce, 2, 0, 6, 4, false}, {}};
  plan.request.shared_memory = plan.request.windows = true;
  for (int rank = 0; rank < 2; ++rank) {
    Program program;
    program.rank = rank;
    program.input = program.output = program.partition = {6, 2};
    program.ops.resize(3);
    program.ops[0].kind = OpKind::expose;
    program.ops[1].kind = OpKind::fetch_reduce;
    program.ops[1].placement = Placement::everywhere;
    program.ops[1].length = fixed(rank);
    program.ops[1].a = {Buffer::input, fixed(rank)};
    program.ops[1].target = {Buffer::output, fixed(rank)};
    program.ops[1].finish = true;
    program.ops[2].kind = OpKind::fence;
    program.rounds = {{0, 1}, {1, 1}, {2, 1}};
    program.loops = {{1, 0, 3}};
    plan.programs.push_back(program);
  }
  return plan;
}

TEST(Check, ExposedMemoryIsUsedBetweenFencesByOneWriter) {
  for (const bool in_place : {false, true}) {
    EXPECT_TRUE(check_plan(exposing_plan(), in_place).is_ok()) << check_plan(exposing_plan(), in_place).to_string();
  }
  Plan elsewhere = exposing_plan();
  elsewhere.request.windows = false;
  expect_refused(elsewhere, false, "windows");
  Plan early = exposing_plan();
  for (Program& program : early.programs) program.rounds = {{1, 1}, {0, 1}, {2, 1}};
  expect_refused(early, false, "before it is exposed");
  Plan unfenced = exposing_plan();
  for (Program& program : unfenced.programs) program.loops = {{1, 0, 2}};
  expect_refused(unfenced, false, "while others may use its memory");
  Plan twice = exposing_plan();
  for (Program& program : twice.programs) program.rounds = {{0, 1}, {0, 1}, {2, 1}};
  expect_refused(twice, false, "exposes twice");
  Plan lonely = exposing_plan();
  lonely.programs[0].rounds[2].op_count = 0;
  expect_refused(lonely, false, "deadlock");
}

// Rank 0 copies into its output what rank 1 also stores there, or reads there.
TEST(Check, RefusesRacesInExposedMemory) {
  Plan plan = exposing_plan();
  Op own;
  own.kind = OpKind::copy;
  own.length = fixed(1);
  own.a = {Buffer::input, fixed(1)};
  own.target = {Buffer::output, fixed(1)};
  plan.programs[0].ops.push_back(own);
  plan.programs[0].rounds = {{0, 1}, {1, 1}, {3, 1}, {2, 1}};
  plan.programs[0].loops = {{1, 0, 4}};
  expect_refused(plan, false, "while another operation uses it");
  plan.programs[0].ops[3].target = {Buffer::output, fixed(0)};
  plan.programs[0].ops[3].a = {Buffer::output, fixed(1)};
  expect_refused(plan, false, "while another operation uses it");
}

TEST(Print, NamesPostsAndPlaces) {
  EXPECT_NE(print_program(posting_plan().programs[0]).find("post input[0]"), std::string::npos);
  const std::string text = print_program(exposing_plan().programs[1]);
  EXPECT_NE(text.find("expose input and output"), std::string::npos) << text;
  EXPECT_NE(text.find("output[1] of all = sum of input[1] of all, finished"), std::string::npos) << text;
  EXPECT_NE(text.find("fence"), std::string::npos) << text;
}

TEST(Print, NamesBuffersAndPeers) {
  const std::string text = print_program(exchange_plan().programs[1]);
  EXPECT_NE(text.find("send input[0] to 0"), std::string::npos) << text;
  EXPECT_NE(text.find("output[0] = (from 0) + input[0], finished"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::plan
