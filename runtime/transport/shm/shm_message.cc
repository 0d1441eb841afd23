#include "runtime/transport/shm/shm_message.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <trireme/base/wire.h>

namespace trireme {
namespace {

constexpr std::uint64_t kMagic = 0x545249534d454d32;  // "TRISMEM2": the version is its last digit.
constexpr std::size_t kMostBytes = 1024;
constexpr std::size_t kMostFds = 2;

Status malformed(const char* what) {
  return data_loss(std::string("shm transport: ") + what + " is not in the format of this version");
}

std::vector<UniqueFd> take_fds(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

std::string ShmHello::encode() const {
  WireWriter writer;
  writer.u64(kMagic);
  writer.u8(static_cast<std::uint8_t>(purpose));
  writer.bytes(channel.encode());
  writer.bytes(token);
  writer.u64(heap_bytes);
  writer.u64(heap_offset);
  writer.u64(doorbell_heap_bytes);
  writer.u64(doorbell_offset);
  return writer.take();
}

Result<ShmHello> ShmHello::decode(std::string_view text) {
  WireReader reader(text);
  if (reader.u64() != kMagic) return malformed("a hello");
  ShmHello hello;
  const std::uint8_t purpose = reader.u8();
  if (purpose > static_cast<std::uint8_t>(ShmPurpose::memory)) return malformed("a hello");
  hello.purpose = static_cast<ShmPurpose>(purpose);
  TRIREME_ASSIGN_OR_RETURN(hello.channel, ChannelHello::decode(reader.bytes()));
  hello.token = reader.string();
  hello.heap_bytes = reader.u64();
  hello.heap_offset = reader.u64();
  hello.doorbell_heap_bytes = reader.u64();
  hello.doorbell_offset = reader.u64();
  if (!reader.finished()) return malformed("a hello");
  return hello;
}

std::string ShmReply::encode() const {
  WireWriter writer;
  writer.u64(kMagic);
  writer.bytes(refusal);
  writer.u64(doorbell_heap_bytes);
  writer.u64(doorbell_offset);
  return writer.take();
}

Result<ShmReply> ShmReply::decode(std::string_view text) {
  WireReader reader(text);
  if (reader.u64() != kMagic) return malformed("a reply");
  ShmReply reply;
  reply.refusal = reader.string();
  reply.doorbell_heap_bytes = reader.u64();
  reply.doorbell_offset = reader.u64();
  if (!reader.finished()) return malformed("a reply");
  return reply;
}

Status send_shm_message(int socket, std::string_view text, const std::vector<int>& fds) {
  TRIREME_CHECK(text.size() <= kMostBytes && fds.size() <= kMostFds, "shm message too large");
  iovec piece{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno_status(errno, "shm transport: sending descriptors to a peer");
  if (static_cast<std::size_t>(sent) != text.size())
    return io_error("shm transport: a handshake message was cut short");
  return Status::ok();
}

Result<std::optional<ShmMessage>> receive_shm_message(int socket) {
  std::array<char, kMostBytes> buffer;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  iovec piece{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<ShmMessage>();
  if (got < 0) return errno_status(errno, "shm transport: receiving a handshake message");
  if (got == 0) return peer_dead("shm transport: the peer closed the connection during the handshake");
  ShmMessage message;
  message.text.assign(buffer.data(), static_cast<std::size_t>(got));
  message.fds = take_fds(header);
  return std::optional<ShmMessage>(std::move(message));
}

}  // namespace trireme
