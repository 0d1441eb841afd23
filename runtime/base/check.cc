#include <trireme/base/check.h>

#include <cstdio>
#include <cstdlib>

namespace trireme::detail {

void check_failed(const char* condition, const char* file, int line, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace trireme::detail
