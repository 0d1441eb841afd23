// Messages survive the wire; garbage does not get past it; links keep order under load.
#include "launcher/protocol/messages.h"

#include <gtest/gtest.h>

#include <random>

#include "launcher/protocol/link.h"

namespace trireme {
namespace {

std::vector<Message> samples() {
  message::Configure configure;
  configure.job = {"job",
                   "prog",
                   {"", "a b", std::string("\0\xff", 2)},
                   {"A=1"},
                   "/tmp",
                   "host",
                   4,
                   1,
                   {2, 3},
                   "127.0.0.1:1",
                   "secret",
                   StdinMode::all,
                   2,
                   false,
                   "out"};
  ExitState exit;
  exit.signaled = true;
  exit.signal = 11;
  exit.core_dumped = true;
  return {configure,
          message::StartAttempt{3, 2},
          message::SignalRanks{3, 15},
          message::SignalLeftovers{3, 18},
          message::KillAll{4},
          message::CollectRecordings{4},
          message::Notice{"text"},
          message::Shutdown{},
          message::RankStarted{3, 1, 4711},
          message::StartFailed{3, 1, true, "why"},
          message::RankExited{3, 1, exit, {"x", ""}},
          message::Recordings{3, {"{}", ""}},
          message::Quiet{3},
          message::OutputClosed{"why"}};
}

TEST(Messages, EveryKindSurvivesTheWire) {
  ASSERT_EQ(samples().size(), std::variant_size_v<Message>);
  for (const Message& message : samples()) {
    const std::string bytes = encode(message);
    const Result<Message> back = decode(bytes);
    ASSERT_TRUE(back.is_ok()) << back.status().to_string();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(encode(*back), bytes);
  }
  const auto configure = std::get<message::Configure>(decode(encode(samples()[0])).value());
  EXPECT_EQ(configure.job, std::get<message::Configure>(samples()[0]).job);
  const auto exited = std::get<message::RankExited>(decode(encode(samples()[10])).value());
  EXPECT_EQ(exited.exit.shell_code(), 139);
  EXPECT_TRUE(exited.exit.core_dumped);
}

TEST(Messages, CutAndForeignBytesAreRefused) {
  EXPECT_FALSE(decode("").is_ok());
  EXPECT_FALSE(decode("\xc8").is_ok());
  for (const Message& message : samples()) {
    const std::string bytes = encode(message);
    for (std::size_t length = 1; length < bytes.size(); ++length) EXPECT_FALSE(decode(bytes.substr(0, length)).is_ok());
    EXPECT_FALSE(decode(bytes + "x").is_ok());
  }
}

TEST(Messages, RandomBytesAreReadWithoutHarm) {
  std::mt19937 random(23);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encode(samples()[random() % samples().size()]);
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const Result<Message> message = decode(bytes);
    EXPECT_TRUE(!message.is_ok() || encode(*message).size() == bytes.size());
  }
}

TEST(Link, KeepsOrderWhenTheOtherEndIsSlow) {
  auto loop = EventLoop::create().value();
  auto ends = connected_pair().value();
  std::vector<std::string> received;
  int ended = 0;
  auto reader = Link::open(
                    *loop, std::move(ends.second),
                    [&](const Message& m) { received.push_back(std::get<message::Notice>(m).text); },
                    [&](const Status&) { ++ended; })
                    .value();
  auto writer = Link::open(
                    *loop, std::move(ends.first), [](const Message&) { FAIL(); }, [](const Status&) {})
                    .value();
  std::vector<std::string> sent;
  for (std::size_t i = 0; i < 200; ++i) {
    sent.push_back(std::to_string(i) + std::string(i * 131, 'x'));
    writer->send(message::Notice{sent.back()});
  }
  EXPECT_TRUE(writer->has_pending());  // More than the socket holds.
  while (received.size() < sent.size()) ASSERT_TRUE(loop->run_once().is_ok());
  EXPECT_EQ(received, sent);
  writer.reset();
  while (ended == 0) ASSERT_TRUE(loop->run_once().is_ok());
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace trireme
