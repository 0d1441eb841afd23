// A switch in user space that delays (and loses) frames, for kernels without netem:
//   test_hosts_relay DELAY_MS LOSS_PERCENT INTERFACE PID...
// makes a TAP device INTERFACE in the network namespace of each process, prints "ready",
// and passes frames between them, each DELAY_MS after it came, until it is killed.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {
namespace {

constexpr std::size_t kFrameBytes = 2048;
constexpr std::size_t kMostQueued = 65'536;
constexpr int kBatch = 64;

struct Frame {
  std::uint64_t due_ns = 0;
  int to = -1;  // A port, or -1 for all but `from`.
  int from = 0;
  std::size_t bytes = 0;
  std::array<char, kFrameBytes> data;
};

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "relay: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

UniqueFd make_port(const std::string& pid, const char* interface) {
  const UniqueFd space(open(("/proc/" + pid + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  if (!space.valid() || setns(space.get(), CLONE_NEWNET) != 0) give_up("entering a network namespace");
  UniqueFd port(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!port.valid()) give_up("/dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(port.get(), TUNSETIFF, &request) != 0) give_up("making a TAP device");
  return port;
}

class Switch {
 public:
  Switch(std::vector<UniqueFd> ports, std::uint64_t delay_ns, unsigned loss_percent)
      : ports_(std::move(ports)), delay_ns_(delay_ns), loss_percent_(loss_percent) {}

  void run() {
    std::vector<pollfd> entries;
    for (const UniqueFd& port : ports_) entries.push_back({port.get(), POLLIN, 0});
    for (;;) {
      send_due();
      timespec patience{};
      if (!queue_.empty()) {
        const std::uint64_t now_ns = system_clock().now_ns();
        const std::uint64_t left_ns = queue_.front().due_ns > now_ns ? queue_.front().due_ns - now_ns : 0;
        patience.tv_nsec = static_cast<long>(std::min<std::uint64_t>(left_ns, 999'999'999));
      }
      ppoll(entries.data(), entries.size(), queue_.empty() ? nullptr : &patience, nullptr);
      for (std::size_t i = 0; i < ports_.size(); ++i) take_in(static_cast<int>(i));
    }
  }

 private:
  void take_in(int from) {
    for (int i = 0; i < kBatch && queue_.size() < kMostQueued; ++i) {
      Frame& frame = queue_.emplace_back();
      const ssize_t got = read(ports_[static_cast<std::size_t>(from)].get(), frame.data.data(), kFrameBytes);
      if (got < 14) return queue_.pop_back();
      const std::string source(frame.data.data() + 6, 6);
      const std::string target(frame.data.data(), 6);
      learned_[source] = from;
      const auto known = learned_.find(target);
      frame.from = from;
      frame.to = known == learned_.end() ? -1 : known->second;
      frame.bytes = static_cast<std::size_t>(got);
      frame.due_ns = system_clock().now_ns() + delay_ns_;
      if (random_() % 100 < loss_percent_) queue_.pop_back();
    }
  }

  void send_due() {
    const std::uint64_t now_ns = system_clock().now_ns();
    while (!queue_.empty() && queue_.front().due_ns <= now_ns) {
      const Frame& frame = queue_.front();
      for (int port = 0; port < static_cast<int>(ports_.size()); ++port) {
        if (port == frame.from || (frame.to >= 0 && frame.to != port)) continue;
        // A full device drops, as a switch would.
        [[maybe_unused]] const ssize_t sent =
            write(ports_[static_cast<std::size_t>(port)].get(), frame.data.data(), frame.bytes);
      }
      queue_.pop_front();
    }
  }

  std::vector<UniqueFd> ports_;
  std::uint64_t delay_ns_;
  unsigned loss_percent_;
  std::deque<Frame> queue_;  // One delay for all: in order of time.
  std::map<std::string, int> learned_;
  std::mt19937 random_{1};
};

int run(int argc, char** argv) {
  std::vector<UniqueFd> ports;
  for (int i = 4; i < argc; ++i) ports.push_back(make_port(argv[i], argv[3]));
  std::puts("ready");
  std::fflush(stdout);
  Switch(std::move(ports), static_cast<std::uint64_t>(std::strtod(argv[1], nullptr) * 1e6),
         static_cast<unsigned>(std::atoi(argv[2])))
      .run();
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc >= 6) return trireme::run(argc, argv);
  std::fprintf(stderr, "usage: test_hosts_relay DELAY_MS LOSS_PERCENT INTERFACE PID PID...\n");
  return 2;
}
