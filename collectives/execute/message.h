// The headers of point-to-point messages: 32 bytes each (docs/formats/messages.md).
//
// Small messages go out at once (eager), as far as the receiver has promised room for
// messages nobody asked for yet; others announce themselves and wait until the receiver
// has a place for the data. All kinds between two ranks share one ordered channel:
//   eager     sender -> receiver   call, then the payload
//   announce  sender -> receiver   call; the payload waits
//   clear     receiver -> sender   "send the data of message `id`"
//   data      sender -> receiver   the payload of message `id`
//   credit    receiver -> sender   `count` bytes of the room are free again
// Pure values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <trireme/base/data_type.h>

namespace trireme {

enum class MessageKind : std::uint8_t { eager = 1, announce, clear, data, credit };

struct MessageHeader {
  MessageKind kind = MessageKind::eager;
  DataType type = DataType::u8;
  std::int32_t tag = 0;
  std::uint64_t count = 0;
  std::uint64_t id = 0;  // Counts the messages of one sender to one receiver.
};

inline constexpr std::size_t kMessageHeaderBytes = 32;
using MessageHeaderBytes = std::array<std::byte, kMessageHeaderBytes>;
MessageHeaderBytes encode_message_header(const MessageHeader& header);
// nullopt when the bytes are no header of this version.
std::optional<MessageHeader> decode_message_header(std::span<const std::byte, kMessageHeaderBytes> bytes);

// Payloads up to here go out at once.
inline constexpr std::size_t kEagerBytes = 8 * 1024;
// What a receiver holds of one sender's messages that nobody asked for: eager payloads,
// and kMessageHeaderBytes for every announcement. A sender beyond it waits.
inline constexpr std::size_t kUnexpectedBytes = 256 * 1024;

}  // namespace trireme
