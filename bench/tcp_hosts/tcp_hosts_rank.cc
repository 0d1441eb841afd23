// One of two ranks that measure send and receive:
//   tcp_hosts_rank latency|bandwidth BYTES SECONDS
// latency: half of the median round trip, in microseconds. bandwidth: rank 0 sends
// messages of BYTES one after the other, four under way at a time; what rank 1 receives
// per second, in Gbit/s, after a warm-up. Rank 0 prints one number. docs/performance/tcp.md says how it is used.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/platform/clock.h>

namespace trireme {
namespace {

constexpr std::uint64_t kWindow = 4;

struct Request {
  bool latency = false;
  std::size_t bytes = 0;
  double seconds = 1;
};

double since(std::uint64_t start_ns) {
  return static_cast<double>(system_clock().now_ns() - start_ns) / 1e9;
}

Result<double> ping_pong(Communicator& c, const Request& request) {
  std::vector<char> data(std::max<std::size_t>(request.bytes, 1));
  std::vector<double> rounds;
  const std::uint64_t start_ns = system_clock().now_ns();
  char go_on = 1;
  while (go_on != 0) {
    const std::uint64_t began_ns = system_clock().now_ns();
    for (int side : {0, 1}) {
      TRIREME_RETURN_IF_ERROR(c.rank() == side ? c.send(data.data(), request.bytes, DataType::u8, 1 - side)
                                               : c.receive(data.data(), request.bytes, DataType::u8, side));
    }
    rounds.push_back(since(began_ns));
    if (rounds.size() % 1000 != 0) continue;
    go_on = since(start_ns) < request.seconds ? 1 : 0;
    TRIREME_RETURN_IF_ERROR(c.broadcast(&go_on, &go_on, 1, DataType::u8, 0));
  }
  std::nth_element(rounds.begin(), rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2), rounds.end());
  return rounds[rounds.size() / 2] * 1e6 / 2;
}

// `messages` one after the other, kWindow of them under way, then one byte back.
Status batch(Communicator& c, std::vector<std::vector<char>>& data, std::uint64_t messages) {
  std::vector<Work> works(kWindow);
  for (std::uint64_t i = 0; i < messages + kWindow; ++i) {
    Work& work = works[i % kWindow];
    TRIREME_RETURN_IF_ERROR(work.wait());
    if (i >= messages) continue;
    std::vector<char>& buffer = data[i % kWindow];
    work = c.rank() == 0 ? c.send_async(buffer.data(), buffer.size(), DataType::u8, 1)
                         : c.receive_async(buffer.data(), buffer.size(), DataType::u8, 0);
  }
  char byte = 0;
  return c.rank() == 1 ? c.send(&byte, 1, DataType::u8, 0) : c.receive(&byte, 1, DataType::u8, 1);
}

// Batches grow until one takes long enough.
Result<double> stream(Communicator& c, const Request& request) {
  std::vector<std::vector<char>> data(kWindow, std::vector<char>(request.bytes, 'x'));
  for (std::uint64_t messages = kWindow;;) {
    const std::uint64_t start_ns = system_clock().now_ns();
    TRIREME_RETURN_IF_ERROR(batch(c, data, messages));
    const double seconds = since(start_ns);
    double next = seconds >= request.seconds ? 0 : static_cast<double>(messages) * request.seconds / seconds * 1.1 + 1;
    TRIREME_RETURN_IF_ERROR(c.broadcast(&next, &next, 1, DataType::f64, 0));
    if (next == 0) return static_cast<double>(messages * request.bytes) * 8 / seconds / 1e9;
    messages = static_cast<std::uint64_t>(next);
  }
}

Result<double> measure(const Request& request) {
  TRIREME_ASSIGN_OR_RETURN(auto world, World::join());
  if (world->size() != 2) return invalid_argument("tcp_hosts_rank needs 2 ranks");
  TRIREME_ASSIGN_OR_RETURN(auto communicator, Communicator::create(world, {}));
  TRIREME_RETURN_IF_ERROR(communicator->barrier());
  auto result = request.latency ? ping_pong(*communicator, request) : stream(*communicator, request);
  if (result.is_ok() && world->rank() == 0) std::printf("%.4f\n", result.value());
  return result;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  Request request;
  const bool right = argc == 4 && (std::strcmp(argv[1], "latency") == 0 || std::strcmp(argv[1], "bandwidth") == 0);
  if (right)
    request = {std::strcmp(argv[1], "latency") == 0, std::strtoull(argv[2], nullptr, 10),
               std::strtod(argv[3], nullptr)};
  if (!right || request.bytes == 0 || request.seconds <= 0) {
    std::fprintf(stderr, "usage: tcp_hosts_rank latency|bandwidth BYTES SECONDS\n");
    return 2;
  }
  const auto result = measure(request);
  if (result.is_ok()) return 0;
  std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
  return exit_code(result.status().code());
}
