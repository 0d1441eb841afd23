// One rank of a job, for the regression tests that need real processes:
//   test_regressions_rank MODE ARGUMENTS
// all_reduce BYTES ROUNDS    exact sums; prints "done".
// endless FILE               writes its pid to FILE, then all-reduces until it is killed.
// drip TIMEOUT_MS BYTES      one all-reduce while rank 1 runs only a few milliseconds in
//                            every quarter of a deadline; prints how many deadlines it
//                            took, and the Status.
// differ NAME VALUE VALUE    rank r sets NAME to its VALUE, then creates a communicator.
// lost_before_first_message  rank 1 dies before anybody has connected to it.
// lost_while_getting         rank 1 dies while the others wait for a key that it alone puts.
// busy SECONDS HOGS          all-reduces while HOGS processes per rank burn processor time.
// large COUNT                all_reduce and broadcast of COUNT bytes as i8, in place.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/platform/clock.h>

namespace trireme {
namespace {

using Arguments = std::vector<std::string>;

int fail(const Status& status) {
  std::printf("failed: %s\n", status.to_string().c_str());
  return 1;
}

// A communicator of all ranks; null, with the reason printed, when there is none.
std::shared_ptr<Communicator> communicator(const CommunicatorOptions& options = {}) {
  auto world = World::join();
  auto made = world.is_ok() ? Communicator::create(std::move(world).value(), options)
                            : Result<std::shared_ptr<Communicator>>(world.status());
  if (made.is_ok()) return std::move(made).value();
  (void)fail(made.status());
  return nullptr;
}

float input_of(int rank, std::size_t element) {
  return static_cast<float>((element * 7 + static_cast<std::size_t>(rank) * 3) % 11);
}

Status all_reduce_checked(Communicator& c, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = input_of(c.rank(), i);
  TRIREME_RETURN_IF_ERROR(c.all_reduce(data.data(), data.data(), count, DataType::f32, ReduceOp::sum));
  for (std::size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int rank = 0; rank < c.size(); ++rank) expected += input_of(rank, i);
    if (data[i] != expected) return data_loss("element " + std::to_string(i) + " is wrong");
  }
  return Status::ok();
}

int all_reduce_mode(const Arguments& a) {
  const auto c = communicator();
  if (c == nullptr) return 1;
  for (int round = 0; round < std::stoi(a[1]); ++round) {
    if (Status status = all_reduce_checked(*c, std::stoul(a[0]) / sizeof(float)); !status.is_ok()) return fail(status);
  }
  std::puts("done");
  return 0;
}

int endless_mode(const Arguments& a) {
  const auto c = communicator();
  if (c == nullptr) return 1;
  if (Status status = c->barrier(); !status.is_ok()) return fail(status);
  const int fd = ::open(a[0].c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string line = std::to_string(::getpid()) + "\n";
  if (fd < 0 || ::write(fd, line.data(), line.size()) < 0) return 1;
  for (;;) {
    if (Status status = all_reduce_checked(*c, 100'000); !status.is_ok()) return fail(status);
  }
}

// Forked before there are threads: once told to, stops and continues the parent many times.
class Pulse {
 public:
  Pulse(int times, int stopped_ms, int running_ms) {
    if (::pipe(ends_) != 0) std::abort();
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ != 0) return;
    char start = 0;
    ::close(ends_[1]);
    if (::read(ends_[0], &start, 1) != 1) ::_exit(0);
    for (int i = 0; i < times && ::kill(parent, SIGSTOP) == 0; ++i) {
      ::usleep(static_cast<useconds_t>(stopped_ms) * 1000);
      ::kill(parent, SIGCONT);
      ::usleep(static_cast<useconds_t>(running_ms) * 1000);
    }
    ::_exit(0);
  }
  ~Pulse() { ::kill(child_, SIGKILL); }
  void begin() {
    if (::write(ends_[1], "x", 1) != 1) std::abort();
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t child_ = -1;
};

int drip_mode(const Arguments& a) {
  const int timeout_ms = std::stoi(a[0]);
  Pulse pulse(9, timeout_ms / 4, 10);
  CommunicatorOptions options;
  options.timeout_ms = timeout_ms;
  const auto c = communicator(options);
  if (c == nullptr) return 1;
  std::vector<float> data(std::stoul(a[1]) / sizeof(float), 1.0f);
  if (Status status = c->barrier(); !status.is_ok()) return fail(status);
  if (c->rank() == 1) pulse.begin();
  const std::uint64_t begin = system_clock().now_ns();
  const Status status = c->all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::max);
  const std::uint64_t took_ms = (system_clock().now_ns() - begin) / 1'000'000;
  std::printf("%llu deadlines: %s\n", static_cast<unsigned long long>(took_ms / static_cast<std::uint64_t>(timeout_ms)),
              status.to_string().c_str());
  return status.is_ok() ? 0 : 1;
}

int differ_mode(const Arguments& a) {
  const std::string rank = std::getenv("TRIREME_RANK");
  ::setenv(a[0].c_str(), a[rank == "1" ? 2 : 1].c_str(), 1);
  const auto c = communicator();
  if (c == nullptr) return 2;
  std::vector<float> data(1000, 1);
  const Status status = c->all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum);
  if (!status.is_ok()) return fail(status);
  std::printf("got %g, %s\n", data[999], c->explain_all_reduce(1000, DataType::f32, ReduceOp::sum).c_str());
  return 0;
}

int lost_before_first_message_mode(const Arguments&) {
  const auto c = communicator();
  if (c == nullptr) return 1;
  if (c->rank() == 1) {
    (void)c->world().put("gone", "now");
    ::raise(SIGKILL);
  }
  (void)c->world().get("gone", Deadline::after_ms(60'000));
  std::vector<float> data(1'000'000);
  return fail(c->send(data.data(), data.size(), DataType::f32, 1));
}

int lost_while_getting_mode(const Arguments&) {
  auto world = World::join();
  if (!world.is_ok()) return fail(world.status());
  if (world.value()->rank() == 1) {
    (void)world.value()->get("waiting", Deadline::after_ms(60'000));
    ::raise(SIGKILL);
  }
  (void)world.value()->put("waiting", "yes");
  const auto got = world.value()->get("never put", Deadline::after_ms(60'000));
  const auto met = world.value()->exchange("never met", {0, 1}, "", Deadline::after_ms(60'000));
  std::printf("get: %s\n", got.status().to_string().c_str());
  std::printf("exchange: %s\n", met.status().to_string().c_str());
  return 1;
}

int busy_mode(const Arguments& a) {
  std::vector<pid_t> hogs;
  for (int i = 0; i < std::stoi(a[1]); ++i) {
    hogs.push_back(::fork());
    if (hogs.back() == 0) {
      while (::getppid() != 1) {
      }
    }
  }
  const auto c = communicator();
  Status status = c == nullptr ? unavailable("no communicator") : Status::ok();
  const Deadline end = Deadline::after_ms(static_cast<std::uint64_t>(std::stoi(a[0])) * 1000);
  // Rank 0 says whether there is another round, so that all ranks do the same number.
  for (std::uint8_t again = 1; status.is_ok() && again != 0;) {
    status = all_reduce_checked(*c, 3'000);
    again = end.expired() ? 0 : 1;
    if (status.is_ok()) status = c->broadcast(&again, &again, 1, DataType::u8, 0);
  }
  for (const pid_t hog : hogs) ::kill(hog, SIGKILL);
  if (!status.is_ok()) return fail(status);
  std::puts("done");
  return 0;
}

std::int8_t large_input(int rank, std::size_t element) {
  return static_cast<std::int8_t>((element % 13) * (rank == 0 ? 1 : 2));
}

int large_mode(const Arguments& a) {
  const auto c = communicator();
  if (c == nullptr) return 1;
  std::vector<std::int8_t> data(std::stoul(a[0]));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = large_input(c->rank(), i);
  Status status = c->all_reduce(data.data(), data.data(), data.size(), DataType::i8, ReduceOp::sum);
  for (std::size_t i = 0; status.is_ok() && i < data.size(); ++i) {
    if (data[i] != large_input(0, i) + large_input(1, i)) status = data_loss("sum " + std::to_string(i));
  }
  for (std::size_t i = 0; status.is_ok() && i < data.size(); ++i) {
    data[i] = c->rank() == 1 ? large_input(1, i) : std::int8_t{-1};
  }
  if (status.is_ok()) status = c->broadcast(data.data(), data.data(), data.size(), DataType::i8, 1);
  for (std::size_t i = 0; status.is_ok() && i < data.size(); ++i) {
    if (data[i] != large_input(1, i)) status = data_loss("broadcast element " + std::to_string(i));
  }
  if (!status.is_ok()) return fail(status);
  std::puts("done");
  return 0;
}

int run(const Arguments& arguments) {
  const std::map<std::string, std::function<int(const Arguments&)>> modes = {
      {"all_reduce", all_reduce_mode},
      {"endless", endless_mode},
      {"drip", drip_mode},
      {"differ", differ_mode},
      {"lost_before_first_message", lost_before_first_message_mode},
      {"lost_while_getting", lost_while_getting_mode},
      {"busy", busy_mode},
      {"large", large_mode},
  };
  const auto mode = arguments.empty() ? modes.end() : modes.find(arguments[0]);
  if (mode == modes.end()) {
    std::fprintf(stderr, "test_regressions_rank: no such mode\n");
    return 2;
  }
  return mode->second({arguments.begin() + 1, arguments.end()});
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run({argv + 1, argv + argc});
}
