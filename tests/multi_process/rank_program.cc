// One rank as a process, for tests that stop, kill or confuse it:
//   test_multi_process_rank RANK SIZE STORE MODE TIMEOUT_MS
// Prints "ready" after a first barrier, then all-reduces until something goes wrong;
// prints the milliseconds that took since the last success and the Status; exits 1.
// MODE: "run"; "differ" (rank 1 calls broadcast after a while); "renew" (100
// communicators one after the other; exits 0 when descriptors stay constant).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr std::size_t kCount = 20'000;

std::shared_ptr<World> join(char** arguments) {
  WorldOptions options;
  options.rank = std::atoi(arguments[1]);
  options.size = std::atoi(arguments[2]);
  options.store_address = arguments[3];
  options.secret = "secret";
  options.job_id = "multi_process";
  options.epoch = 1;
  auto world = World::join(options);
  if (world.is_ok()) return std::move(world).value();
  std::printf("%s\n", world.status().to_string().c_str());
  return nullptr;
}

int until_it_fails(Communicator& c, bool differ) {
  std::vector<float> data(kCount, 1.0f);
  Status status = c.barrier();
  std::puts("ready");
  std::fflush(stdout);
  std::uint64_t last = system_clock().now_ns();
  for (int i = 0; status.is_ok(); ++i) {
    last = system_clock().now_ns();
    status = differ && c.rank() == 1 && i == 50
                 ? c.broadcast(data.data(), data.data(), kCount, DataType::f32, 0)
                 : c.all_reduce(data.data(), data.data(), kCount, DataType::f32, ReduceOp::max);
  }
  const std::uint64_t waited_ms = (system_clock().now_ns() - last) / 1'000'000;
  std::printf("after %llu ms: %s\n", static_cast<unsigned long long>(waited_ms), status.to_string().c_str());
  std::fflush(stdout);
  return 1;
}

std::size_t descriptors() {
  const auto names = list_directory("/proc/self/fd");
  return names.is_ok() ? names.value().size() : 0;
}

// Descriptors after the first few stay what they are.
int renew(const std::shared_ptr<World>& world, const CommunicatorOptions& options) {
  std::size_t first = 0;
  for (int i = 0; i < 100; ++i) {
    auto c = Communicator::create(world, options);
    float value = 1;
    Status status = c.is_ok() ? c.value()->all_reduce(&value, &value, 1, DataType::f32, ReduceOp::sum) : c.status();
    if (status.is_ok()) status = c.value()->barrier();
    if (!status.is_ok() || value != static_cast<float>(world->size())) {
      std::printf("round %d: %s\n", i, status.to_string().c_str());
      return 1;
    }
    c.value().reset();
    if (i == 10) first = descriptors();
  }
  const std::size_t last = descriptors();
  std::printf("descriptors: %zu after 10 communicators, %zu after 100\n", first, last);
  // Peers may still be closing their ends; what leaks grows by one a communicator.
  return last < first + 20 ? 0 : 1;
}

// Whenever a rank dies the others go on without it, until two are left.
int shrink_on(std::shared_ptr<Communicator> c) {
  std::vector<float> data(kCount);
  for (bool announced = false;;) {
    Status status;
    while (status.is_ok()) {
      data.assign(kCount, 1.0f);
      status = c->all_reduce(data.data(), data.data(), kCount, DataType::f32, ReduceOp::sum);
      if (status.is_ok() && data.back() != static_cast<float>(c->size())) return 3;
      if (status.is_ok() && !announced) std::printf("%d go on\n", c->size());
      std::fflush(stdout);
      announced = true;
      if (status.is_ok() && c->size() == 2) return 0;
    }
    auto smaller = c->shrink();
    if (!smaller.is_ok()) {
      std::printf("%s\n", smaller.status().to_string().c_str());
      return 1;
    }
    c = std::move(smaller).value();
    announced = false;
  }
}

int run(char** arguments) {
  auto world = join(arguments);
  if (world == nullptr) return 1;
  CommunicatorOptions options;
  options.timeout_ms = std::atoi(arguments[5]);
  if (std::strcmp(arguments[4], "renew") == 0) return renew(world, options);
  auto c = Communicator::create(world, options);
  if (!c.is_ok()) {
    std::printf("%s\n", c.status().to_string().c_str());
    return 1;
  }
  if (std::strcmp(arguments[4], "shrink") == 0) return shrink_on(std::move(c).value());
  return until_it_fails(*c.value(), std::strcmp(arguments[4], "differ") == 0);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc == 6) return trireme::run(argv);
  std::fprintf(stderr, "usage: test_multi_process_rank RANK SIZE STORE run|differ|renew|shrink TIMEOUT_MS\n");
  return 2;
}
