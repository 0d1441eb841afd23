// One message with descriptors over a Unix-domain socket, without ever waiting: the
// messages are far smaller than any socket buffer, and one sendmsg arrives as one
// recvmsg. docs/transports.md describes the two messages of the handshake.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/api/handshake.h"

namespace trireme {

inline constexpr std::size_t kShmTokenBytes = 32;

// What the heap in a hello is for: the rings of a channel, or memory that is exchanged.
enum class ShmPurpose : std::uint8_t { channel = 0, memory };

// What the lower rank sends to open a channel, and every rank to give memory, with the
// descriptors of that heap and of its doorbell heap.
struct ShmHello {
  ShmPurpose purpose = ShmPurpose::channel;
  ChannelHello channel;
  std::string token;  // The receiver's.
  std::uint64_t heap_bytes = 0;
  std::uint64_t heap_offset = 0;  // Where the rings, or the memory, begin.
  std::uint64_t doorbell_heap_bytes = 0;
  std::uint64_t doorbell_offset = 0;

  std::string encode() const;
  static Result<ShmHello> decode(std::string_view text);
};

// The answer: ok with the descriptor of the doorbell heap, or a refusal.
struct ShmReply {
  std::string refusal;  // Empty: accepted.
  std::uint64_t doorbell_heap_bytes = 0;
  std::uint64_t doorbell_offset = 0;

  std::string encode() const;
  static Result<ShmReply> decode(std::string_view text);
};

struct ShmMessage {
  std::string text;
  std::vector<UniqueFd> fds;
};

Status send_shm_message(int socket, std::string_view text, const std::vector<int>& fds);
// nullopt when nothing has come yet. Errors: peer_dead at the end of the stream.
Result<std::optional<ShmMessage>> receive_shm_message(int socket);

}  // namespace trireme
