#include "runtime/transport/tcp/tcp_stream.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace trireme {
namespace {

// What one processor core moves through one socket, and what one window holds.
constexpr double kStreamMbit = 12'500;
constexpr double kWindowBytes = 3 << 20;
constexpr unsigned kMostChosen = 8;

void set_option(int fd, int level, int option, int value) {
  // Refused options cost speed or the early notice of a lost host, nothing else.
  setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

unsigned tcp_stream_count(std::int64_t speed_mbit, double round_trip_us, bool same_machine) {
  if (same_machine || speed_mbit <= 0) return 1;
  const double speed = static_cast<double>(speed_mbit);
  const double under_way_bytes = speed / 8 * round_trip_us;  // Mbit/s times us are bits.
  const double wanted = std::max(speed / kStreamMbit, under_way_bytes / kWindowBytes);
  unsigned streams = 1;
  while (streams < kMostChosen && streams < wanted) ++streams;
  return streams;
}

void set_tcp_options(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

ssize_t send_pieces(int fd, iovec* pieces, std::size_t count) {
  msghdr header{};
  header.msg_iov = pieces;
  header.msg_iovlen = count;
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t receive_bytes(int fd, void* into, std::size_t bytes) {
  ssize_t got = 0;
  do {
    got = recv(fd, into, bytes, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return got;
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

TcpSilence tcp_silence(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  return {info.tcpi_unacked > 0 || info.tcpi_probes > 0, std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)};
}

}  // namespace trireme
