#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/platform/api/sockets.h"
#include "runtime/platform/socket_address.h"
#include "runtime/platform/system_call.h"

namespace trireme {
namespace {

// A socket file that nobody listens on is left by a dead process: it may be replaced.
bool is_stale_socket_file(const KernelAddress& address) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.valid() && ::connect(probe.get(), address.get(), address.length) != 0 && errno == ECONNREFUSED;
}

int bind_address(int fd, const KernelAddress& address, const std::string& text) {
  if (::bind(fd, address.get(), address.length) == 0) return 0;
  const int error_number = errno;
  const bool is_path = address.family() == AF_UNIX && text.size() > 5 && text[5] != '@';
  if (error_number != EADDRINUSE || !is_path || !is_stale_socket_file(address)) return error_number;
  ::unlink(text.c_str() + 5);
  return ::bind(fd, address.get(), address.length) == 0 ? 0 : errno;
}

}  // namespace

Result<Listener> Listener::listen(const SocketAddress& address) {
  TRIREME_ASSIGN_OR_RETURN(const KernelAddress wanted, to_kernel_address(address));
  UniqueFd fd(retried("socket.listen",
                      [&] { return ::socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
  if (!fd.valid()) return errno_status(errno, "make a socket to listen on " + address.text);
  const int on = 1;
  const int off = 0;
  // "[::]" serves IPv4 too, whatever the host's default.
  if (wanted.family() == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (wanted.family() != AF_UNIX) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (const int error_number = bind_address(fd.get(), wanted, address.text); error_number != 0) {
    return errno_status(error_number, "listen on " + address.text);
  }
  if (::listen(fd.get(), SOMAXCONN) != 0) return errno_status(errno, "listen on " + address.text);
  KernelAddress bound;
  bound.length = sizeof(sockaddr_storage);
  if (::getsockname(fd.get(), bound.get(), &bound.length) != 0) {
    return errno_status(errno, "find the port of the listener on " + address.text);
  }
  return Listener(std::move(fd), from_kernel_address(bound));
}

Result<Socket> Listener::try_accept() {
  while (true) {
    KernelAddress peer;
    peer.length = sizeof(sockaddr_storage);
    const int fd = retried(
        "socket.accept", [&] { return ::accept4(fd_.get(), peer.get(), &peer.length, SOCK_CLOEXEC | SOCK_NONBLOCK); });
    if (fd >= 0) {
      disable_nagle(fd, peer.family());
      const bool is_local = peer.family() == AF_UNIX;
      return Socket(UniqueFd(fd), is_local ? "a client of " + address_.text : from_kernel_address(peer).text);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Socket();
    // Errors of the connection that was to be accepted: it is gone, take the next.
    if (errno == ECONNABORTED || errno == EPROTO) continue;
    return errno_status(errno, "accept on " + address_.text);
  }
}

Result<Socket> Listener::accept(Deadline deadline) {
  while (true) {
    TRIREME_ASSIGN_OR_RETURN(Socket socket, try_accept());
    if (socket.valid()) return socket;
    pollfd entry{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, deadline.remaining_ms());
    if (ready < 0 && errno != EINTR) return errno_status(errno, "wait for a connection on " + address_.text);
    if (ready == 0 && deadline.expired()) {
      return deadline_exceeded("nobody connected to " + address_.text + " in time");
    }
  }
}

}  // namespace trireme
