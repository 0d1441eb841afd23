// Signatures, argument checks and the choice of algorithms.
#include "collectives/execute/call.h"

#include <gtest/gtest.h>

#include "collectives/execute/message.h"
#include "collectives/execute/validate.h"
#include "collectives/select/selector.h"

namespace trireme {
namespace {

Call make(CallKind kind, std::uint64_t count = 4, int root = 0) {
  Call call;
  call.kind = kind;
  call.type = DataType::f32;
  call.count = count;
  call.root = root;
  return call;
}

TEST(Signature, EveryFieldSurvivesAndCounts) {
  Call call = make(CallKind::reduce, 1u << 20, 3);
  call.sequence = 77;
  call.algorithm = 2;
  call.op = ReduceOp::max;
  const Signature bytes = encode_signature(call);
  ASSERT_TRUE(decode_signature(bytes));
  EXPECT_EQ(*decode_signature(bytes), call);
  for (std::size_t i = 0; i < 3; ++i) {
    Signature broken = bytes;
    broken[i] ^= std::byte{0x40};
    EXPECT_FALSE(decode_signature(broken)) << i;
  }
}

TEST(Signature, Describes) {
  EXPECT_EQ(describe(make(CallKind::broadcast, 5, 2)), "broadcast(count=5, f32, root=2)");
  EXPECT_EQ(ordinal(1) + ordinal(2) + ordinal(3) + ordinal(11) + ordinal(113) + ordinal(22), "1st2nd3rd11th113th22nd");
}

TEST(MessageHeader, SurvivesTheWire) {
  const MessageHeader header{MessageKind::announce, DataType::i64, 9, 12345, 6};
  const auto bytes = encode_message_header(header);
  const auto decoded = decode_message_header(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->count, 12345u);
  EXPECT_EQ(decoded->tag, 9);
  EXPECT_EQ(decoded->id, 6u);
  MessageHeaderBytes broken = bytes;
  broken[3] = std::byte{9};
  EXPECT_FALSE(decode_message_header(broken));
}

void expect_refused(const Call& call, const void* input, const void* output, const std::string& part) {
  const Status status = validate_call(call, nullptr, input, output, 1, 4);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.to_string();
}

TEST(Validate, RefusesBadArguments) {
  float data[32] = {};
  expect_refused(make(CallKind::all_reduce), nullptr, data, "input is null");
  expect_refused(make(CallKind::all_reduce), data, nullptr, "output is null");
  expect_refused(make(CallKind::broadcast, 4, 4), data, data, "there is no rank 4; expected 0 to 3");
  expect_refused(make(CallKind::reduce, 4, -1), data, data, "there is no rank -1");
  expect_refused(make(CallKind::all_reduce), data, data + 1, "overlap");
  expect_refused(make(CallKind::all_gather), data, data, "output + rank * count");
  expect_refused(make(CallKind::reduce_scatter), data, data, "input + rank * count");
  expect_refused(make(CallKind::all_reduce), reinterpret_cast<char*>(data) + 1, data + 16, "not aligned");
  expect_refused(make(CallKind::all_reduce, std::uint64_t{1} << 62), data, data, "exceeds");
  Call tagged = make(CallKind::send, 1, 0);
  tagged.tag = -1;
  expect_refused(tagged, data, nullptr, "tag");
}

TEST(Validate, AcceptsWhatTheHeaderPromises) {
  float data[32] = {};
  EXPECT_TRUE(validate_call(make(CallKind::all_reduce), nullptr, data, data, 1, 4).is_ok());
  EXPECT_TRUE(validate_call(make(CallKind::all_gather), nullptr, data + 4, data, 1, 4).is_ok());
  EXPECT_TRUE(validate_call(make(CallKind::reduce_scatter), nullptr, data, data + 4, 1, 4).is_ok());
  EXPECT_TRUE(validate_call(make(CallKind::reduce), nullptr, data, nullptr, 1, 4).is_ok());     // Not the root.
  EXPECT_TRUE(validate_call(make(CallKind::broadcast), nullptr, nullptr, data, 1, 4).is_ok());  // Not the root.
  EXPECT_TRUE(validate_call(make(CallKind::all_reduce, 0), nullptr, nullptr, nullptr, 1, 4).is_ok());
}

TEST(Selector, SmallCallsAvoidMessagesLargeOnesBytes) {
  const Selector selector({5e-6, 2e-10, 1e-10}, {});
  plan::Request request{plan::Collective::all_reduce, 8, 0, 2, 4, false};
  const plan::Algorithm* small = selector.choose(request);
  EXPECT_TRUE(small == plan::find_algorithm("direct") || small == plan::find_algorithm("recursive_doubling"));
  request.count = 64 << 20;
  const plan::Algorithm* large = selector.choose(request);
  EXPECT_TRUE(large == plan::find_algorithm("ring") || large == plan::find_algorithm("pairwise") ||
              large == plan::find_algorithm("recursive_halving"));
  EXPECT_NE(selector.explain(request).find("least time"), std::string::npos);
}

TEST(Selector, ForcedAlgorithms) {
  const auto ring = parse_forced_algorithms("ring");
  ASSERT_TRUE(ring.is_ok());
  const Selector selector({}, ring.value());
  EXPECT_EQ(selector.choose({plan::Collective::all_reduce, 4, 0, 1, 4, false})->name, "ring");
  EXPECT_EQ(selector.choose({plan::Collective::broadcast, 4, 0, 100'000, 4, false})->name, "binomial_tree");
  EXPECT_TRUE(parse_forced_algorithms("all_reduce=pairwise,broadcast=binomial_tree").is_ok());
  EXPECT_NE(parse_forced_algorithms("rong").status().message().find("recursive_doubling"), std::string::npos);
  EXPECT_NE(parse_forced_algorithms("barrier=ring").status().message().find("cannot do barrier"), std::string::npos);
  EXPECT_NE(parse_forced_algorithms("all_redoos=ring").status().message().find("no collective"), std::string::npos);
}

}  // namespace
}  // namespace trireme
