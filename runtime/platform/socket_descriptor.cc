// Passing descriptors. On the wire: a u32 length with the descriptor attached, then the
// note. The kernel never merges a read across attached descriptors, so the four bytes
// and their descriptor arrive together.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/platform/api/sockets.h"
#include "runtime/platform/system_call.h"

namespace trireme {
namespace {

constexpr std::uint32_t kNoteBytesMax = 64 * 1024;

struct Message {
  iovec part{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  Message(void* data, std::size_t bytes) {
    part.iov_base = data;
    part.iov_len = bytes;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
};

Status wait_for(const Socket& socket, short events, Deadline deadline, const char* what) {
  pollfd entry{socket.fd(), events, 0};
  const int ready = ::poll(&entry, 1, deadline.remaining_ms());
  if (ready == 0 && deadline.expired()) {
    return deadline_exceeded(std::string(what) + " " + socket.peer() + ": the peer did not answer in time");
  }
  return Status::ok();
}

UniqueFd attached_descriptor(msghdr& header) {
  UniqueFd found;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
    found = UniqueFd(fd);
  }
  return found;
}

}  // namespace

Status send_descriptor(Socket& socket, int fd, std::string_view note, Deadline deadline) {
  if (note.size() > kNoteBytesMax) {
    return invalid_argument("a note of " + std::to_string(note.size()) + " bytes beside a descriptor: at most " +
                            std::to_string(kNoteBytesMax));
  }
  std::uint32_t length = static_cast<std::uint32_t>(note.size());
  Message message(&length, sizeof(length));
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(fd));
  std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  ssize_t sent = -1;
  while (true) {
    sent = retried("socket.send", [&] { return ::sendmsg(socket.fd(), &message.header, MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (sent > 0) break;
    if (errno != EAGAIN) return errno_status(errno, "send a descriptor to " + socket.peer());
    TRIREME_RETURN_IF_ERROR(wait_for(socket, POLLOUT, deadline, "send a descriptor to"));
  }
  const auto begun = static_cast<std::size_t>(sent);
  TRIREME_RETURN_IF_ERROR(
      socket.send_all(reinterpret_cast<const char*>(&length) + begun, sizeof(length) - begun, deadline));
  return socket.send_all(note.data(), note.size(), deadline);
}

Result<std::pair<UniqueFd, std::string>> receive_descriptor(Socket& socket, Deadline deadline) {
  std::uint32_t length = 0;
  Message message(&length, sizeof(length));
  ssize_t got = -1;
  while (true) {
    got = retried("socket.receive",
                  [&] { return ::recvmsg(socket.fd(), &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT); });
    if (got > 0) break;
    if (got == 0) return peer_dead("receive a descriptor from " + socket.peer() + ": the peer closed the connection");
    if (errno != EAGAIN) return errno_status(errno, "receive a descriptor from " + socket.peer());
    TRIREME_RETURN_IF_ERROR(wait_for(socket, POLLIN, deadline, "receive a descriptor from"));
  }
  UniqueFd fd = attached_descriptor(message.header);
  const auto begun = static_cast<std::size_t>(got);
  TRIREME_RETURN_IF_ERROR(
      socket.receive_all(reinterpret_cast<char*>(&length) + begun, sizeof(length) - begun, deadline));
  if (!fd.valid() || length > kNoteBytesMax) {
    return data_loss("receive a descriptor from " + socket.peer() + ": " +
                     (fd.valid() ? "its note is too long" : "none was attached") +
                     "; the peer speaks another protocol");
  }
  std::string note(length, '\0');
  TRIREME_RETURN_IF_ERROR(socket.receive_all(note.data(), note.size(), deadline));
  return std::pair(std::move(fd), std::move(note));
}

}  // namespace trireme
