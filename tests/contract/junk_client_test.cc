// Whoever is no member of the job may connect to a rank's listeners, and disturbs nothing.
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "runtime/platform/api/unique_fd.h"
#include "tests/contract/support.h"

namespace trireme::test {
namespace {

// A listening socket of this process; its address as the kernel knows it.
struct ListeningSocket {
  sockaddr_storage address{};
  socklen_t length = sizeof(sockaddr_storage);
};

std::set<int> listening_descriptors() {
  std::set<int> found;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    int listens = 0;
    socklen_t length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0) found.insert(fd);
  }
  closedir(folder);
  return found;
}

UniqueFd connect_to(int listener) {
  ListeningSocket target;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&target.address), &target.length) != 0) return {};
  UniqueFd fd(socket(target.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&target.address), target.length) != 0) return {};
  return fd;
}

// True when the other end closed the connection within the patience of the test.
bool closed_by_peer(int fd) {
  const timeval patience{.tv_sec = kPatienceMs / 1000, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char buffer[512];
  for (;;) {
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got > 0) continue;
    return got == 0 || errno == ECONNRESET;
  }
}

class JunkClient : public testing::TestWithParam<TransportFactory> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not_here(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_P(JunkClient, IsRefusedAndDisturbsNothing) {
  if (GetParam().name == "verbs") GTEST_SKIP() << "verbs listens on no socket; its datagrams have a test of their own";
  auto worlds = LocalFabrics::local_worlds(2);
  const std::set<int> before = listening_descriptors();  // The store's.
  LocalFabrics ranks(std::move(worlds), GetParam(), 16 * 1024);
  std::vector<UniqueFd> silent;
  int listeners = 0;
  for (int listener : listening_descriptors()) {
    if (before.contains(listener)) continue;
    ++listeners;
    connect_to(listener).reset();            // Comes and goes.
    silent.push_back(connect_to(listener));  // Says nothing.
    silent.push_back(connect_to(listener));
    ASSERT_EQ(send(silent.back().get(), "T", 1, MSG_NOSIGNAL), 1);  // Says too little.
    const UniqueFd loud = connect_to(listener);
    ASSERT_TRUE(loud.valid());
    const auto junk = pattern(4096, static_cast<std::uint64_t>(listener));
    send(loud.get(), junk.data(), junk.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(closed_by_peer(loud.get()));
  }
  EXPECT_GE(listeners, 2);
  ranks.run([&](int r) {
    auto channel = ranks.open(r, 1 - r, 1);
    const auto out = pattern(100'000, static_cast<std::uint64_t>(r));
    std::vector<std::byte> in(out.size());
    const Status status = exchange_all(ranks.rank(r).doorbell(), *channel, out, in);
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    EXPECT_TRUE(in == pattern(100'000, static_cast<std::uint64_t>(1 - r)));
  });
}

INSTANTIATE_TEST_SUITE_P(Table, JunkClient,
                         testing::ValuesIn(contract_transports().begin(), contract_transports().end()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace trireme::test
