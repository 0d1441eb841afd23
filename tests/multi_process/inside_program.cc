// A rank that others look into: test_inside_rank MODE FOLDER, started by any launcher.
// Writes its pid to FOLDER/pids after a first barrier, then all-reduces until FOLDER/stop
// exists or something goes wrong (exit code 1, the Status on standard error). MODE:
//   run     nothing else
//   differ  rank 1 calls broadcast as its 52nd call
//   late    rank 3 leaves the others waiting in their 52nd call until FOLDER/go exists
//   crash   rank 1 ends with exit code 3 before its 52nd call
//   alone   waits for FOLDER/stop without a call
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr std::size_t kCount = 1000;
constexpr int kSpecialCall = 50;  // After a barrier and 50 calls: the 52nd.

bool exists(const std::string& path) {
  return file_info(path).value().exists;
}

void wait_for(const std::string& path) {
  while (!exists(path)) system_clock().sleep_ns(5'000'000);
}

void write_pid(const std::string& folder) {
  const std::string text = std::to_string(::getpid()) + "\n";
  const int fd = ::open((folder + "/pids").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  ::close(fd);
}

Status calls(Communicator& c, const std::string& mode, const std::string& folder) {
  std::vector<float> data(kCount, 1.0f);
  TRIREME_RETURN_IF_ERROR(c.barrier());
  write_pid(folder);
  for (int i = 0;; ++i) {
    // All ranks stop at the same call: whoever sees the file first says so to all.
    float stop = mode != "run" || exists(folder + "/stop") ? 1 : 0;
    if (mode == "differ" && c.rank() == 1 && i == kSpecialCall) {
      return c.broadcast(data.data(), data.data(), kCount, DataType::f32, 0);
    }
    if (mode == "crash" && c.rank() == 1 && i == kSpecialCall) std::_Exit(3);
    if (mode == "late" && c.rank() == 3 && i == kSpecialCall) wait_for(folder + "/go");
    if (mode == "run") {
      TRIREME_RETURN_IF_ERROR(c.all_reduce(&stop, &stop, 1, DataType::f32, ReduceOp::max));
      if (stop > 0) return {};
      system_clock().sleep_ns(1'000'000);
    }
    TRIREME_RETURN_IF_ERROR(c.all_reduce(data.data(), data.data(), kCount, DataType::f32, ReduceOp::max));
    if (mode != "run" && i > 2 * kSpecialCall) return {};
  }
}

int run(const std::string& mode, const std::string& folder) {
  auto world = World::join();
  Status status = world.status();
  if (status.is_ok()) {
    auto c = Communicator::create(world.value());
    status = c.status();
    if (status.is_ok() && mode == "alone") {
      write_pid(folder);
      wait_for(folder + "/stop");
    } else if (status.is_ok()) {
      status = calls(*c.value(), mode, folder);
    }
  }
  if (status.is_ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc == 3) return trireme::run(argv[1], argv[2]);
  std::fprintf(stderr, "usage: test_inside_rank run|differ|late|crash|alone FOLDER\n");
  return 2;
}
