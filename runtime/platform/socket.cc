#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/platform/api/sockets.h"
#include "runtime/platform/socket_address.h"
#include "runtime/platform/system_call.h"

namespace trireme {
namespace {

// Waits for `events` (or an error, which the next call on the socket reports).
Status wait_ready(int fd, short events, Deadline deadline, const std::string& what) {
  pollfd entry{fd, events, 0};
  while (true) {
    const int ready = ::poll(&entry, 1, deadline.remaining_ms());
    if (ready > 0) return Status::ok();
    if (ready < 0 && errno != EINTR) return errno_status(errno, what);
    if (ready == 0 && deadline.expired()) return deadline_exceeded(what + ": the peer did not answer in time");
  }
}

// One attempt. Returns 0 or an errno; `fd` holds the connected socket.
int connect_once(const KernelAddress& target, Deadline deadline, UniqueFd& fd) {
  fd = UniqueFd(retried("socket.connect",
                        [&] { return ::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
  if (!fd.valid()) return errno;
  if (::connect(fd.get(), target.get(), target.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    if (!wait_ready(fd.get(), POLLOUT, deadline, "connect").is_ok()) return ETIMEDOUT;
    int error_number = 0;
    socklen_t length = sizeof(error_number);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &length);
    if (error_number != 0) return error_number;
  }
  if (is_self_connected(fd.get())) return ECONNREFUSED;
  return 0;
}

// The listener may be starting (refused, no such path yet) or busy (a full backlog).
bool may_come_up(int error_number) {
  return error_number == ECONNREFUSED || error_number == ENOENT || error_number == EAGAIN || error_number == ECONNRESET;
}

}  // namespace

Result<Socket> Socket::connect(const SocketAddress& address, Deadline deadline) {
  TRIREME_ASSIGN_OR_RETURN(const KernelAddress target, to_kernel_address(address));
  std::uint64_t pause_ns = 1'000'000;
  while (true) {
    UniqueFd fd;
    const int error_number = connect_once(target, deadline, fd);
    if (error_number == 0) {
      disable_nagle(fd.get(), target.family());
      return Socket(std::move(fd), address.text);
    }
    if (!may_come_up(error_number) && error_number != ETIMEDOUT) {
      return errno_status(error_number, "connect to " + address.text);
    }
    if (deadline.expired()) {
      return deadline_exceeded("connect to " + address.text +
                               ": nobody accepted in time (last: " + ::strerrorname_np(error_number) +
                               "); is the listener running, and is this its address?");
    }
    const std::uint64_t left_ns =
        deadline.is_never() ? pause_ns : static_cast<std::uint64_t>(deadline.remaining_ms()) * 1'000'000;
    system_clock().sleep_ns(std::min(pause_ns, left_ns));
    pause_ns = std::min<std::uint64_t>(pause_ns * 2, 50'000'000);
  }
}

Result<std::size_t> Socket::send_some(const void* data, std::size_t bytes) {
  const ssize_t sent =
      retried("socket.send", [&] { return ::send(fd_.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
  return errno_status(errno, "send to " + peer_);
}

Result<std::size_t> Socket::receive_some(void* data, std::size_t bytes) {
  if (bytes == 0) return std::size_t{0};
  const ssize_t got = retried("socket.receive", [&] { return ::recv(fd_.get(), data, bytes, MSG_DONTWAIT); });
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) return peer_dead("receive from " + peer_ + ": the peer closed the connection");
  if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
  return errno_status(errno, "receive from " + peer_);
}

Status Socket::send_all(const void* data, std::size_t bytes, Deadline deadline) {
  const char* next = static_cast<const char*>(data);
  std::size_t left = bytes;
  while (left > 0) {
    TRIREME_ASSIGN_OR_RETURN(const std::size_t sent, send_some(next, left));
    next += sent;
    left -= sent;
    if (sent == 0) {
      TRIREME_RETURN_IF_ERROR(wait_ready(
          fd_.get(), POLLOUT, deadline,
          "send to " + peer_ + " (" + std::to_string(left) + " of " + std::to_string(bytes) + " bytes left)"));
    }
  }
  return Status::ok();
}

Status Socket::receive_all(void* data, std::size_t bytes, Deadline deadline) {
  char* next = static_cast<char*>(data);
  std::size_t left = bytes;
  while (left > 0) {
    TRIREME_ASSIGN_OR_RETURN(const std::size_t got, receive_some(next, left));
    next += got;
    left -= got;
    if (got == 0) {
      TRIREME_RETURN_IF_ERROR(wait_ready(
          fd_.get(), POLLIN, deadline,
          "receive from " + peer_ + " (" + std::to_string(left) + " of " + std::to_string(bytes) + " bytes missing)"));
    }
  }
  return Status::ok();
}

Result<SocketAddress> Socket::local_address() const {
  KernelAddress address;
  address.length = sizeof(sockaddr_storage);
  if (::getsockname(fd_.get(), address.get(), &address.length) != 0) {
    return errno_status(errno, "local address of the connection to " + peer_);
  }
  return from_kernel_address(address);
}

void Socket::shutdown() {
  if (fd_.valid()) ::shutdown(fd_.get(), SHUT_RDWR);
}

Result<std::pair<Socket, Socket>> connected_pair() {
  int fds[2];
  const int made = retried("socket.connect",
                           [&] { return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds); });
  if (made != 0) return errno_status(errno, "make a pair of sockets");
  return std::pair(Socket(UniqueFd(fds[0]), "the other end of a socket pair"),
                   Socket(UniqueFd(fds[1]), "the other end of a socket pair"));
}

}  // namespace trireme
