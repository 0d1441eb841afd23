// The transport over devices of the tests' own, with the faults that real ones show rarely.
#include "runtime/transport/verbs/verbs_transport.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/contract/support.h"
#include "tests/runtime/transport/verbs/fake_device.h"

namespace trireme::test {
namespace {

FakeDevices* the_devices = nullptr;

Result<std::unique_ptr<Transport>> create(const TransportEnvironment& environment) {
  return create_verbs_transport_on(the_devices->library(), environment);
}

class VerbsTransport : public testing::Test {
 protected:
  VerbsTransport() { the_devices = &devices_; }
  LocalFabrics make(int size, std::size_t bytes = 64 * 1024) { return LocalFabrics(size, {"verbs", create}, bytes); }
  static Status exchange(LocalFabrics& ranks, std::size_t bytes, std::uint64_t context = 1) {
    std::array<Status, 2> results;
    ranks.run([&](int r) {
      auto channel = ranks.open(r, 1 - r, context);
      const auto out = pattern(bytes, static_cast<std::uint64_t>(r));
      std::vector<std::byte> in(bytes);
      Status status = exchange_all(ranks.rank(r).doorbell(), *channel, out, in);
      if (status.is_ok() && in != pattern(bytes, static_cast<std::uint64_t>(1 - r))) status = data_loss("bytes differ");
      if (status.is_ok()) {
        status = wait_until(ranks.rank(r).doorbell(), *channel, [&] { return channel->drained(); });
      }
      results[static_cast<std::size_t>(r)] = status;
    });
    return results[0].is_ok() ? results[1] : results[0];
  }

  FakeDevices devices_{2};
};

TEST_F(VerbsTransport, UsesBothDevicesAndLeavesNothingOpen) {
  {
    LocalFabrics ranks = make(2);
    const Status status = exchange(ranks, 4 << 20);
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    EXPECT_GT(devices_.bytes_written(0), 1u << 20);
    EXPECT_GT(devices_.bytes_written(1), 1u << 20);
    EXPECT_EQ(devices_.receiver_not_ready(), 0u);
  }
  EXPECT_EQ(devices_.open_objects(), 0);
}

TEST_F(VerbsTransport, LostDatagramsOnlyDelay) {
  LocalFabrics ranks = make(2);
  devices_.set_faults({.drop_datagrams = 60});
  for (std::uint64_t context = 0; context < 5; ++context) {
    const Status status = exchange(ranks, 1000, context);
    ASSERT_TRUE(status.is_ok()) << status.to_string();
  }
}

TEST_F(VerbsTransport, JunkInTheMailboxIsDropped) {
  LocalFabrics ranks = make(2);
  for (std::size_t bytes : {1, 8, 50, 200, 256}) {
    const auto junk = pattern(bytes, bytes);
    devices_.send_junk(junk.data(), junk.size());
  }
  std::string close_to_it = "TRIVRBH1" + std::string(150, '\1');
  devices_.send_junk(close_to_it.data(), close_to_it.size());
  const Status status = exchange(ranks, 100'000);
  EXPECT_TRUE(status.is_ok()) << status.to_string();
}

TEST_F(VerbsTransport, AnUnreachablePeerIsNamedWithDeviceAndPath) {
  LocalFabrics ranks = make(2);
  auto channel = ranks.open(0, 1, 1);
  auto other = ranks.open(1, 0, 1);
  std::byte byte{1};
  std::byte got{};
  ASSERT_TRUE(send_all(ranks.rank(0).doorbell(), *channel, std::span(&byte, 1)).is_ok());
  ASSERT_TRUE(receive_all(ranks.rank(1).doorbell(), *other, std::span(&got, 1)).is_ok());
  devices_.set_faults({.cut = true});
  const auto data = pattern(1 << 20, 1);
  const Status status = send_all(ranks.rank(0).doorbell(), *channel, data);
  EXPECT_EQ(status.code(), StatusCode::unavailable) << status.to_string();
  for (const char* part : {"rank 1 (", "fake", "port 1", "10.99.", "retry counter exceeded", "check"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.to_string();
  }
}

TEST_F(VerbsTransport, APortThatStaysDownBreaksItsChannelsOnly) {
  setenv("TRIREME_VERBS_RAILS", "1", 1);
  LocalFabrics ranks = make(2);
  unsetenv("TRIREME_VERBS_RAILS");
  auto channel = ranks.open(0, 1, 1);
  auto other = ranks.open(1, 0, 1);
  std::byte byte{1};
  ASSERT_TRUE(send_all(ranks.rank(0).doorbell(), *channel, std::span(&byte, 1)).is_ok());
  ASSERT_TRUE(receive_all(ranks.rank(1).doorbell(), *other, std::span(&byte, 1)).is_ok());
  const int used = devices_.bytes_written(0) > 0 ? 0 : 1;
  devices_.port_event(1 - used, false);  // Nobody's.
  devices_.port_event(used, false);      // Comes back in time.
  devices_.port_event(used, true);
  Status status = receive_all(ranks.rank(0).doorbell(), *channel, std::span<std::byte>());
  EXPECT_TRUE(status.is_ok()) << status.to_string();
  devices_.port_event(used, false);
  status = receive_all(ranks.rank(1).doorbell(), *other, std::span(&byte, 1));
  EXPECT_EQ(status.code(), StatusCode::unavailable) << status.to_string();
  for (const std::string& part :
       {std::string("rank 0 ("), "fake" + std::to_string(used) + " port 1", std::string("down")}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.to_string();
  }
}

TEST_F(VerbsTransport, WithoutLockableMemoryItSaysWhatUlimitMustBe) {
  devices_.set_faults({.lockable_bytes = 100'000});
  auto worlds = LocalFabrics::local_worlds(2);
  const TransportFactory factory{"verbs", create};
  FabricOptions options;
  options.transports = std::span(&factory, 1);
  options.channel_bytes = 1 << 20;
  on_threads(2, [&](int r) {
    const auto fabric = Fabric::create(worlds[static_cast<std::size_t>(r)], options);
    ASSERT_FALSE(fabric.is_ok());
    for (const char* part : {"ulimit -l", "2048 KiB", "fake"}) {
      EXPECT_NE(fabric.status().message().find(part), std::string::npos) << fabric.status().to_string();
    }
  });
  EXPECT_EQ(devices_.open_objects(), 0);
}

TEST_F(VerbsTransport, SendsOutOfTheCallersMemoryUntilDrained) {
  LocalFabrics ranks = make(2);
  auto channel = ranks.open(0, 1, 1);
  auto other = ranks.open(1, 0, 1);
  std::vector<std::byte> in(3'000'000);
  on_threads(2, [&](int side) {
    if (side == 1) {
      const Status status = receive_all(ranks.rank(1).doorbell(), *other, in);
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      return;
    }
    Doorbell& bell = ranks.rank(0).doorbell();
    for (std::size_t bytes : {std::size_t{10}, std::size_t{1'000'000}, std::size_t{7}, std::size_t{1'999'983}}) {
      auto data = pattern(bytes, bytes);
      std::span<const std::byte> left = data;
      Status status = wait_until(bell, *channel, [&] {
        left = left.subspan(channel->send_in_place(left));
        return left.empty();
      });
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      status = wait_until(bell, *channel, [&] { return channel->drained(); });
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      std::fill(data.begin(), data.end(), std::byte{0});  // Nobody reads it any more.
    }
  });
  std::size_t at = 0;
  for (std::size_t bytes : {std::size_t{10}, std::size_t{1'000'000}, std::size_t{7}, std::size_t{1'999'983}}) {
    const auto expected = pattern(bytes, bytes);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), in.begin() + static_cast<std::ptrdiff_t>(at))) << bytes;
    at += bytes;
  }
}

TEST_F(VerbsTransport, APeerThatOpensMuchLaterIsWaitedFor) {
  LocalFabrics ranks = make(2);
  auto early = ranks.open(0, 1, 9);
  const auto data = pattern(3000, 4);
  EXPECT_EQ(early->send_some(data), data.size());  // Waits in the send ring.
  EXPECT_FALSE(early->drained());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // Several hellos go unanswered.
  auto late = ranks.open(1, 0, 9);
  std::vector<std::byte> in(data.size());
  const Status status = receive_all(ranks.rank(1).doorbell(), *late, in);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  EXPECT_TRUE(in == data);
}

TEST_F(VerbsTransport, ChannelsThatNobodyAnsweredAreGivenUpAtTheEnd) {
  {
    LocalFabrics ranks = make(2);
    for (std::uint64_t context = 0; context < 10; ++context) {
      auto channel = ranks.open(0, 1, context);
      const auto data = pattern(100, context);
      if (context % 2 == 0) channel->send_some(data);
    }
  }
  EXPECT_EQ(devices_.open_objects(), 0);
}

}  // namespace
}  // namespace trireme::test
