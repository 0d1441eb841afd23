#include "runtime/transport/tcp/tcp_wire.h"

#include <random>

#include <gtest/gtest.h>

namespace trireme {
namespace {

const ChannelHello kChannel{.job_hash = 0x1122334455667788, .from_rank = 1, .to_rank = 4, .context = 99, .ordinal = 3};

TEST(TcpWire, TheHandshakeConvincesBothSides) {
  const std::string token = random_bytes(32);
  const std::string challenge = make_tcp_challenge();
  ASSERT_TRUE(check_tcp_challenge(challenge).is_ok());
  const std::string hello = make_tcp_hello(token, challenge, kChannel);
  ASSERT_EQ(hello.size(), kTcpHelloBytes);
  const auto checked = check_tcp_hello(token, challenge, hello);
  ASSERT_TRUE(checked.is_ok()) << checked.status().to_string();
  EXPECT_EQ(*checked, kChannel);
  const std::string welcome = make_tcp_welcome(token, challenge, hello);
  ASSERT_EQ(welcome.size(), kTcpWelcomeBytes);
  EXPECT_TRUE(check_tcp_welcome(token, challenge, hello, welcome).is_ok());
}

TEST(TcpWire, EveryChangedByteIsRefused) {
  const std::string token = random_bytes(32);
  const std::string challenge = make_tcp_challenge();
  const std::string hello = make_tcp_hello(token, challenge, kChannel);
  const std::string welcome = make_tcp_welcome(token, challenge, hello);
  for (std::size_t i = 0; i < hello.size(); ++i) {
    std::string changed = hello;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(check_tcp_hello(token, challenge, changed).is_ok()) << i;
    EXPECT_FALSE(check_tcp_welcome(token, challenge, changed, welcome).is_ok()) << i;
  }
  for (std::size_t i = 0; i < welcome.size(); ++i) {
    std::string changed = welcome;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(check_tcp_welcome(token, challenge, hello, changed).is_ok()) << i;
  }
}

TEST(TcpWire, NeitherAnotherTokenNorAReplayServes) {
  const std::string token = random_bytes(32);
  const std::string challenge = make_tcp_challenge();
  const std::string hello = make_tcp_hello(token, challenge, kChannel);
  EXPECT_EQ(check_tcp_hello(random_bytes(32), challenge, hello).status().code(), StatusCode::permission_denied);
  EXPECT_EQ(check_tcp_hello(token, make_tcp_challenge(), hello).status().code(), StatusCode::permission_denied);
  // Our own hello, sent back, is no welcome.
  EXPECT_FALSE(check_tcp_welcome(token, challenge, hello, hello.substr(0, kTcpWelcomeBytes)).is_ok());
}

TEST(TcpWire, EndpointsSurviveTheTripAndJunkDoesNot) {
  TcpEndpoint endpoint{random_bytes(32), "boot/net:[1]", {{"10.0.0.2:1", false}, {"127.0.0.1:2", true}}};
  const std::string text = endpoint.encode();
  const auto decoded = TcpEndpoint::decode(text);
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(decoded->encode(), text);
  EXPECT_EQ(decoded->reachable_from("boot/net:[1]"), (std::vector<std::string>{"127.0.0.1:2", "10.0.0.2:1"}));
  EXPECT_EQ(decoded->reachable_from("elsewhere"), (std::vector<std::string>{"10.0.0.2:1"}));
  for (std::size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(TcpEndpoint::decode(text.substr(0, cut)).is_ok());
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {  // Must come back at all, whatever it says.
    std::string junk(random() % 64, '\0');
    for (char& c : junk) c = static_cast<char>(random());
    static_cast<void>(TcpEndpoint::decode(junk).is_ok());
  }
}

}  // namespace
}  // namespace trireme
