#include "runtime/platform/api/console.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string>
#include <system_error>

namespace trireme {
namespace {

// A property of the process, as its standard output is: the first error number, 0 for none.
std::atomic<int>& output_error() {
  static std::atomic<int> error{0};
  return error;
}

void remember(int error_number) {
  int none = 0;
  output_error().compare_exchange_strong(none, error_number != 0 ? error_number : EIO);
}

}  // namespace

void print_out(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) remember(errno);
}

void print_error(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

Status flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) remember(errno);
  const int error_number = output_error();
  return error_number == 0 ? Status::ok() : errno_status(error_number, "write to standard output");
}

int code_after_output(int code) {
  const Status status = flush_output();
  if (status.is_ok() || code != 0) return code;
  print_error(status.message() + ": what was asked for is incomplete\n");
  return 1;
}

int run_main(std::string_view program, const std::function<int()>& body) {
  std::string problem;
  try {
    return code_after_output(body());
  } catch (const std::bad_alloc&) {
    problem = "out of memory: use smaller sizes or fewer ranks here, or raise the limit (ulimit -v, the container's)";
  } catch (const std::system_error& error) {
    problem = std::string("the system refuses: ") + error.what() +
              ". Where threads are short, raise the limit (ulimit -u, the container's pids) or use fewer ranks";
  }
  print_error(std::string(program) + ": " + problem + "\n");
  return 1;
}

}  // namespace trireme
