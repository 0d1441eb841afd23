#include "runtime/platform/api/unique_fd.h"

#include <unistd.h>

namespace trireme {

void UniqueFd::reset() {
  // Linux releases the number even when close(2) is interrupted, so it is never retried.
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace trireme
