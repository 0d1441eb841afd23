#include "runtime/transport/tcp/tcp_wire.h"

#include <random>

#include <gtest/gtest.h>

#include "runtime/platform/api/process.h"

namespace trireme {
namespace {

const TcpHello kChannel{
    .channel = {.job_hash = 0x1122334455667788, .from_rank = 1, .to_rank = 4, .context = 99, .ordinal = 3},
    .stream = 2,
    .streams = 3};

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

TEST(TcpWire, AnotherVersionAndJunkAreCalledByTheirNames) {
  const std::string token = random_bytes(32);
  const std::string challenge = make_tcp_challenge();
  std::string hello = make_tcp_hello(token, challenge, kChannel);
  hello[7] = '1';
  EXPECT_EQ(check_tcp_hello_begin(hello).code(), StatusCode::mismatch);
  EXPECT_NE(check_tcp_hello_begin(hello).message().find("version 1 where version 2"), std::string::npos);
  EXPECT_EQ(check_tcp_hello(token, challenge, hello).status().code(), StatusCode::mismatch);
  EXPECT_EQ(check_tcp_hello_begin("GET / HTTP/1.1").code(), StatusCode::data_loss);
  EXPECT_EQ(check_tcp_hello_begin("GE").code(), StatusCode::data_loss);
  EXPECT_TRUE(check_tcp_hello_begin("").is_ok());
  EXPECT_TRUE(check_tcp_hello_begin("TRIT").is_ok());
  EXPECT_EQ(check_tcp_challenge("TRITCPC1" + std::string(32, 'x')).code(), StatusCode::mismatch);
}

TEST(TcpWire, StreamsThatCannotBeAreRefused) {
  const std::string token = random_bytes(32);
  const std::string challenge = make_tcp_challenge();
  for (const auto& [stream, streams] : {std::pair{0u, 0u}, {1u, 1u}, {3u, 2u}, {0u, 17u}, {200u, 255u}}) {
    const std::string hello = make_tcp_hello(token, challenge, {kChannel.channel, stream, streams});
    EXPECT_EQ(check_tcp_hello(token, challenge, hello).status().code(), StatusCode::data_loss);
  }
}

TEST(TcpWire, ARefusalSaysItsReason) {
  const std::string refusal = make_tcp_refusal(permission_denied("no"));
  ASSERT_EQ(refusal.size(), kTcpWelcomeBytes);
  const Status status = check_tcp_welcome(random_bytes(32), make_tcp_challenge(), "hello", refusal);
  EXPECT_NE(status.message().find("refused us (permission_denied)"), std::string::npos) << status.to_string();
}

TEST(TcpWire, EndpointsSurviveTheTripAndJunkDoesNot) {
  TcpEndpoint endpoint{
      random_bytes(32), "boot/net:[1]", 4, {{"10.0.0.2:1", "eth0", 10'000, false}, {"127.0.0.1:2", "lo", 0, true}}};
  const std::string text = endpoint.encode();
  const auto decoded = TcpEndpoint::decode(text);
  ASSERT_TRUE(decoded.is_ok()) << decoded.status().to_string();
  EXPECT_EQ(*decoded, endpoint);
  for (std::size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(TcpEndpoint::decode(text.substr(0, cut)).is_ok());
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {  // Must come back at all, whatever it says.
    std::string junk(random() % 64, '\0');
    for (char& c : junk) c = static_cast<char>(random());
    static_cast<void>(TcpEndpoint::decode(junk).is_ok());
  }
}

TEST(TcpWire, FieldsOfAnEndpointAreCheckedOneByOne) {
  const TcpEndpoint good{random_bytes(32), "boot/net:[1]", 0, {{"10.0.0.2:1", "eth0", 0, false}}};
  const auto refused = [&](auto change) {
    TcpEndpoint bad = good;
    change(bad);
    return TcpEndpoint::decode(bad.encode()).status().code() == StatusCode::data_loss;
  };
  EXPECT_TRUE(refused([](TcpEndpoint& e) { e.token.pop_back(); }));
  EXPECT_TRUE(refused([](TcpEndpoint& e) { e.network_scope = std::string(10'000, 'x'); }));
  EXPECT_TRUE(refused([](TcpEndpoint& e) { e.streams = 17; }));
  EXPECT_TRUE(refused([](TcpEndpoint& e) { e.addresses[0].text = "example.org:80"; }));
  EXPECT_TRUE(refused([](TcpEndpoint& e) { e.addresses[0].text = "10.0.0.2"; }));
  EXPECT_TRUE(refused([](TcpEndpoint& e) { e.addresses.assign(300, e.addresses[0]); }));
  EXPECT_FALSE(refused([](TcpEndpoint&) {}));
}

}  // namespace
}  // namespace trireme
