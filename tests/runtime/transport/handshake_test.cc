#include "runtime/transport/api/handshake.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/api/local_worlds.h"
#include "runtime/transport/api/meeting.h"
#include "runtime/transport/shm/shm_message.h"

namespace trireme {
namespace {

TEST(Handshake, ProofIsHmacSha256) {
  // RFC 4231, test case 2.
  const std::string digest = proof("Jefe", "what do ya want for nothing?");
  std::string hex;
  for (unsigned char c : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[c >> 4];
    hex += kDigits[c & 15];
  }
  EXPECT_EQ(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Handshake, SecretsCompareByContent) {
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  EXPECT_FALSE(equal_secrets("abc", "abd"));
  EXPECT_FALSE(equal_secrets("abc", "abcd"));
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

TEST(Handshake, AHelloIsForOneRankOfOneJob) {
  auto worlds = make_local_worlds(3);
  ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
  const World& from = *(*worlds)[0];
  const World& to = *(*worlds)[2];
  const ChannelHello hello = ChannelHello::from(from, {.peer = 2, .context = 5, .ordinal = 1});
  const auto decoded = ChannelHello::decode(hello.encode());
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(*decoded, hello);
  EXPECT_TRUE(decoded->check_against(to).is_ok());
  EXPECT_EQ(decoded->key(), (ChannelKey{0, 5, 1}));
  EXPECT_FALSE(decoded->check_against(*(*worlds)[1]).is_ok());
  ChannelHello wrong = hello;
  wrong.job_hash ^= 1;
  EXPECT_EQ(wrong.check_against(to).code(), StatusCode::permission_denied);
  wrong = hello;
  wrong.from_rank = 3;
  EXPECT_FALSE(wrong.check_against(to).is_ok());
  wrong.from_rank = 2;
  EXPECT_FALSE(wrong.check_against(to).is_ok());
  EXPECT_FALSE(ChannelHello::decode(hello.encode() + "x").is_ok());
  EXPECT_FALSE(ChannelHello::decode(hello.encode().substr(1)).is_ok());
}

TEST(Meeting, BringsBothSidesTogetherInEitherOrder) {
  Meeting<std::unique_ptr<int>> meeting;
  std::vector<int> met;
  const auto take = [&](std::unique_ptr<int> value) { met.push_back(*value); };
  const ChannelKey first = meeting.next_key(1, 7);
  const ChannelKey second = meeting.next_key(1, 7);
  const ChannelKey other = meeting.next_key(2, 7);
  EXPECT_NE(first, second);
  EXPECT_EQ(other.ordinal, 0u);
  meeting.expect(first, take);
  meeting.arrive(second, std::make_unique<int>(2));
  EXPECT_TRUE(met.empty());
  meeting.arrive(first, std::make_unique<int>(1));
  meeting.expect(second, take);
  EXPECT_EQ(met, (std::vector<int>{1, 2}));
  meeting.expect(other, take);
  EXPECT_EQ(met.size(), 2u);
}

TEST(ShmMessage, SurvivesTheTripAndTruncationDoesNot) {
  ShmHello hello;
  hello.channel = {.job_hash = 1, .from_rank = 2, .to_rank = 3, .context = 4, .ordinal = 5};
  hello.token = random_bytes(kShmTokenBytes);
  hello.heap_bytes = 8192;
  hello.purpose = ShmPurpose::memory;
  hello.heap_offset = 64;
  hello.doorbell_heap_bytes = 4096;
  hello.doorbell_offset = 128;
  const std::string text = hello.encode();
  const auto decoded = ShmHello::decode(text);
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(decoded->encode(), text);
  EXPECT_EQ(decoded->purpose, ShmPurpose::memory);
  for (std::size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(ShmHello::decode(text.substr(0, cut)).is_ok());
  EXPECT_FALSE(ShmReply::decode(text).is_ok());
  ShmReply reply;
  reply.refusal = "no";
  EXPECT_EQ(ShmReply::decode(reply.encode())->refusal, "no");
}

}  // namespace
}  // namespace trireme
