// Stream sockets over TCP (IPv4, IPv6) and Unix domains, with deadlines.
//
// All sockets are close-on-exec and non-blocking underneath; the blocking calls wait by
// poll(2) until their deadline. Every call retries EINTR and short transfers, honours
// fault injection (fault.h), and its errors name the peer address.
// Thread safety: one sending and one receiving thread per Socket at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {

// "10.0.0.1:4000", "[fe80::1%eth0]:4000", "unix:/path", "unix:@abstract".
struct SocketAddress {
  std::string text;
  static Result<SocketAddress> tcp(const std::string& host, int port);  // Resolves names.
  static Result<SocketAddress> parse(std::string_view text);
  std::string host() const;
  int port() const;         // 0 for Unix domains.
  bool is_numeric() const;  // Needs no resolver.
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(UniqueFd fd, std::string peer) : fd_(std::move(fd)), peer_(std::move(peer)) {}

  // Retries refused connections until the deadline (the listener may be starting).
  static Result<Socket> connect(const SocketAddress& address, Deadline deadline);

  Status send_all(const void* data, std::size_t bytes, Deadline deadline);
  // Errors: peer_dead when the peer closed before `bytes` arrived.
  Status receive_all(void* data, std::size_t bytes, Deadline deadline);
  // At once: the bytes moved, 0 when it would block. Errors: peer_dead at end of stream.
  Result<std::size_t> send_some(const void* data, std::size_t bytes);
  Result<std::size_t> receive_some(void* data, std::size_t bytes);

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }
  // The address of this end, as the peer may reach it ("10.0.0.2:51234").
  Result<SocketAddress> local_address() const;
  void shutdown();
  void close() { fd_.reset(); }
  int release() { return fd_.release(); }

 private:
  UniqueFd fd_;
  std::string peer_;
};

// Tries all addresses at once, once each. Entry i is the connected socket, or why there is
// none. Returns when all are decided, at the deadline, or a moment after the first came:
// about three times what that took.
std::vector<Result<Socket>> connect_each(const std::vector<SocketAddress>& addresses, Deadline deadline);

class Listener {
 public:
  Listener() = default;
  // Port 0 picks a free one. An "unix:@name" address is an abstract socket.
  static Result<Listener> listen(const SocketAddress& address);
  Result<Socket> accept(Deadline deadline);
  // At once: an invalid Socket when nobody waits.
  Result<Socket> try_accept();
  const SocketAddress& address() const { return address_; }  // With the real port.
  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void close() { fd_.reset(); }

 private:
  Listener(UniqueFd fd, SocketAddress address) : fd_(std::move(fd)), address_(std::move(address)) {}
  UniqueFd fd_;
  SocketAddress address_;
};

// Two connected stream sockets (socketpair).
Result<std::pair<Socket, Socket>> connected_pair();

// Sends or receives one descriptor over a Unix-domain socket (SCM_RIGHTS), with `note`.
Status send_descriptor(Socket& socket, int fd, std::string_view note, Deadline deadline);
Result<std::pair<UniqueFd, std::string>> receive_descriptor(Socket& socket, Deadline deadline);

// Addresses of this host's interfaces that are up, loopback last: {"eth0", "10.0.0.2"}, ...
struct InterfaceAddress {
  std::string interface;
  std::string address;  // Link-local IPv6 ones with their scope: "fe80::1%eth0".
  bool loopback = false;
  std::int64_t speed_mbit = 0;  // As the driver says; 0: it does not.
};
Result<std::vector<InterfaceAddress>> interface_addresses();

}  // namespace trireme
