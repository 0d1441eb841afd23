#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "runtime/platform/api/sockets.h"
#include "runtime/platform/socket_address.h"
#include "runtime/platform/system_call.h"

namespace trireme {
namespace {

constexpr std::uint64_t kLeastSettleNs = 20'000'000;

struct Attempt {
  UniqueFd fd;
  std::optional<Status> outcome;
};

Status begin(const SocketAddress& address, Attempt& attempt) {
  TRIREME_ASSIGN_OR_RETURN(const KernelAddress target, to_kernel_address(address));
  attempt.fd = UniqueFd(retried(
      "socket.connect", [&] { return ::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
  if (!attempt.fd.valid()) return errno_status(errno, "make a socket");
  disable_nagle(attempt.fd.get(), target.family());
  if (::connect(attempt.fd.get(), target.get(), target.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return errno_status(errno, "connect");
  }
  return Status::ok();
}

Status finish(int fd) {
  int error_number = 0;
  socklen_t length = sizeof(error_number);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &length);
  if (error_number == 0 && is_self_connected(fd)) error_number = ECONNREFUSED;
  return error_number == 0 ? Status::ok() : errno_status(error_number, "connect");
}

// Decides what has become ready. Returns how many are undecided, and connected ones.
std::pair<std::size_t, std::size_t> look(std::vector<Attempt>& attempts, Deadline until) {
  std::vector<pollfd> entries;
  std::vector<Attempt*> undecided;
  std::size_t connected = 0;
  for (Attempt& attempt : attempts) {
    if (attempt.outcome) {
      connected += attempt.outcome->is_ok() ? 1 : 0;
      continue;
    }
    entries.push_back({attempt.fd.get(), POLLOUT, 0});
    undecided.push_back(&attempt);
  }
  if (entries.empty() || ::poll(entries.data(), entries.size(), until.remaining_ms()) <= 0) {
    return {entries.size(), connected};
  }
  std::size_t left = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents == 0) {
      ++left;
      continue;
    }
    undecided[i]->outcome = finish(undecided[i]->fd.get());
    connected += undecided[i]->outcome->is_ok() ? 1 : 0;
  }
  return {left, connected};
}

}  // namespace

std::vector<Result<Socket>> connect_each(const std::vector<SocketAddress>& addresses, Deadline deadline) {
  const std::uint64_t started_ns = system_clock().now_ns();
  std::vector<Attempt> attempts(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (Status status = begin(addresses[i], attempts[i]); !status.is_ok()) attempts[i].outcome = status;
  }
  bool settling = false;
  for (;;) {
    const auto [undecided, connected] = look(attempts, deadline);
    if (undecided == 0 || deadline.expired()) break;
    if (connected == 0 || settling) continue;
    settling = true;
    const std::uint64_t now_ns = system_clock().now_ns();
    const std::uint64_t settle_ns = std::max(kLeastSettleNs, 3 * (now_ns - started_ns));
    deadline = deadline.earlier(Deadline::at_ns(now_ns + settle_ns));
  }
  std::vector<Result<Socket>> results;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (!attempts[i].outcome) {
      results.emplace_back(deadline_exceeded("connect: no answer in time"));
    } else if (!attempts[i].outcome->is_ok()) {
      results.emplace_back(*attempts[i].outcome);
    } else {
      results.emplace_back(Socket(std::move(attempts[i].fd), addresses[i].text));
    }
  }
  return results;
}

}  // namespace trireme
