// What surrounds a job must not matter: small /dev/shm, little lockable memory, names
// without DNS, what killed jobs leave behind.
#include <cerrno>
#include <csignal>
#include <iterator>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <trireme/memory/shared_heap.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/files.h"
#include "tests/collectives/thread_ranks.h"
#include "tests/regressions/regression_test.h"

namespace trireme::testing {
namespace {

using Environment = RegressionTest;

TEST_F(Environment, Nccl290_DevShmTooSmall) {
  const std::string mount = unshare("--mount");
  if (mount.empty()) GTEST_SKIP() << "needs a mount namespace (root, or user namespaces permitted)";
  const RunResult result = shell(mount +
                                 "sh -c 'mount -t tmpfs -o size=64k tmpfs /dev/shm && "
                                 "TRIREME_TRANSPORT=shm $trireme -n 8 -- $rank_program all_reduce 16777216 1'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_with(result, "done").size(), 8U);
}

TEST_F(Environment, Ompi4553_FullBackingStoreIsAnErrorNotABusError) {
  const ScopedFaultInjector full([](std::string_view site) { return site == "memory.reserve" ? ENOSPC : 0; });
  const auto heap = SharedHeap::create("ring of rank 3", 3 << 20);
  ASSERT_FALSE(heap.is_ok());
  EXPECT_EQ(heap.status().code(), StatusCode::resource_exhausted);
  for (const char* part : {"ring of rank 3", "3145728 bytes", "are available", "use smaller buffers"}) {
    EXPECT_NE(heap.status().message().find(part), std::string::npos) << heap.status().to_string();
  }
}

TEST_F(Environment, Ucx8684_LittleLockableMemory) {
  for (const char* transport : {"shm", "tcp"}) {
    const RunResult result = shell(std::string("ulimit -l 0; TRIREME_TRANSPORT=") + transport +
                                   " $trireme -n 3 -- $rank_program all_reduce 8388608 1");
    EXPECT_EQ(result.code, 0) << transport << "\n" << result.err;
    EXPECT_EQ(lines_with(result, "done").size(), 3U);
  }
}

// Our own: a bare container has no hosts file, and localhost is the loopback all the same.
TEST_F(Environment, LocalhostWithoutAHostsFile) {
  const std::string mount = unshare("--mount");
  if (mount.empty()) GTEST_SKIP() << "needs a mount namespace (root, or user namespaces permitted)";
  const RunResult result =
      shell(mount +
            "sh -c 'mount --bind /dev/null /etc/hosts && mount --bind /dev/null /etc/resolv.conf && "
            "export WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$(($$ % 20000 + 20000)); "
            "RANK=1 $rank_program all_reduce 100 1 & RANK=0 $rank_program all_reduce 100 1 && wait $!'");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST_F(Environment, Pytorch150532_HostNameWithoutDns) {
  const std::string names = unshare("--uts");
  if (names.empty()) GTEST_SKIP() << "needs a UTS namespace (root, or user namespaces permitted)";
  const RunResult result = shell(names +
                                 "sh -c 'hostname nowhere.invalid && $trireme -n 2 -- "
                                 "$rank_program all_reduce 1000 3'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_with(result, "done").size(), 2U);
  EXPECT_NE(result.out.find("nowhere"), std::string::npos) << result.out;
}

// Sockets of this process that listen.
std::size_t listeners() {
  std::set<std::string> ours;
  const auto descriptors = list_directory("/proc/self/fd");
  for (const std::string& name : descriptors.is_ok() ? *descriptors : std::vector<std::string>()) {
    char target[64] = {};
    if (::readlink(("/proc/self/fd/" + name).c_str(), target, sizeof target - 1) <= 0) continue;
    const std::string text = target;  // "socket:[12345]"
    if (text.rfind("socket:[", 0) == 0) ours.insert(text.substr(8, text.size() - 9));
  }
  std::size_t count = 0;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto sockets = read_file(table);
    for (const std::string& line : lines_of(sockets.is_ok() ? *sockets : "")) {
      std::istringstream fields(line);
      std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
      if (words.size() > 9 && words[3] == "0A" && ours.count(words[9]) != 0) ++count;
    }
  }
  return count;
}

// Ranks connect to all others from one listening port each, however many there are.
TEST_F(Environment, Nccl1882_PortsDoNotGrowWithTheNumberOfPeers) {
  CommunicatorOptions options = test::patient();
  options.transport = "tcp";
  std::size_t at_two = 0;
  for (const int ranks : {2, 8}) {
    test::run_ranks(ranks, options, [&](Communicator& c) {
      std::vector<Work> works;
      std::vector<int> in(static_cast<std::size_t>(c.size()));
      for (int peer = 0; peer < c.size(); ++peer) {
        works.push_back(c.send_async(&ranks, 1, DataType::i32, peer));
        works.push_back(c.receive_async(&in[static_cast<std::size_t>(peer)], 1, DataType::i32, peer));
      }
      for (Work& work : works) EXPECT_TRUE(work.wait().is_ok());
      EXPECT_EQ(in, std::vector<int>(in.size(), ranks));
      EXPECT_TRUE(c.barrier().is_ok());
      if (c.rank() == 0 && ranks == 2) at_two = listeners();
      if (c.rank() == 0 && ranks == 8) {
        EXPECT_LE(listeners(), 4 * at_two);
      }
      EXPECT_TRUE(c.barrier().is_ok());
    });
  }
  EXPECT_GE(at_two, 2U);
}

// Names that outlive their processes: files, and sockets of the abstract namespace.
std::set<std::string> names_on_this_host() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    const auto entries = list_directory(folder);
    for (const std::string& name : entries.is_ok() ? *entries : std::vector<std::string>()) {
      names.insert(std::string(folder) + "/" + name);
    }
  }
  const auto sockets = read_file("/proc/net/unix");
  for (const std::string& line : lines_of(sockets.is_ok() ? *sockets : "")) {
    const std::size_t at = line.find('@');
    if (at != std::string::npos) names.insert(line.substr(at));
  }
  return names;
}

class Leftovers : public RegressionTest {
 protected:
  // Kills every rank in the middle of its all-reduces, `times` times.
  void kill_jobs(int times) {
    for (int i = 0; i < times; ++i) {
      const std::string pids = "pids." + std::to_string(i);
      Running running = start(job({"-n", "4", "--grace", "0.1"}, {"endless", file(pids)}));
      for (const std::string& pid : wait_for_lines(pids, 4)) {
        EXPECT_EQ(::kill(static_cast<pid_t>(std::stol(pid)), SIGKILL), 0);
      }
      EXPECT_EQ(finish(running).code, 128 + SIGKILL);
    }
  }
  // Whatever runs beside this test has names too, but they go; what is left behind stays.
  void expect_nothing_left(int times) {
    const std::set<std::string> before = names_on_this_host();
    kill_jobs(times);
    std::set<std::string> fresh;
    for (const std::string& name : names_on_this_host()) {
      const bool may_be_ours = name.rfind("/tmp/", 0) != 0 || name.find("trireme") != std::string::npos;
      if (may_be_ours && before.count(name) == 0) fresh.insert(name);
    }
    for (const Deadline patience = Deadline::after_ms(60'000); !fresh.empty() && !patience.expired();) {
      const std::set<std::string> now = names_on_this_host();
      std::erase_if(fresh, [&](const std::string& name) { return now.count(name) == 0; });
      if (!fresh.empty()) system_clock().sleep_ns(50'000'000);
    }
    EXPECT_TRUE(fresh.empty()) << fresh.size() << " names were left behind, like " << *fresh.begin();
  }
};

TEST_F(Leftovers, Ompi7220_KilledJobsLeaveNoNames) {
  expect_nothing_left(4);
}
TEST_F(Leftovers, Ompi7220_AHundredKilledJobsLeaveNoNamesLong) {
  expect_nothing_left(100);
}

}  // namespace
}  // namespace trireme::testing
