#include "collectives/execute/message.h"

#include <cstring>

namespace trireme {
namespace {

constexpr std::uint16_t kMagic = 0x504d;  // "MP"
constexpr std::uint8_t kVersion = 1;

}  // namespace

MessageHeaderBytes encode_message_header(const MessageHeader& header) {
  MessageHeaderBytes bytes{};
  std::memcpy(bytes.data(), &kMagic, 2);
  std::memcpy(bytes.data() + 2, &kVersion, 1);
  std::memcpy(bytes.data() + 3, &header.kind, 1);
  std::memcpy(bytes.data() + 4, &header.type, 1);
  std::memcpy(bytes.data() + 8, &header.tag, 4);
  std::memcpy(bytes.data() + 16, &header.count, 8);
  std::memcpy(bytes.data() + 24, &header.id, 8);
  return bytes;
}

std::optional<MessageHeader> decode_message_header(std::span<const std::byte, kMessageHeaderBytes> bytes) {
  std::uint16_t magic = 0;
  std::uint8_t small[3];  // version, kind, type
  std::memcpy(&magic, bytes.data(), 2);
  std::memcpy(small, bytes.data() + 2, 3);
  const bool known = small[1] >= static_cast<std::uint8_t>(MessageKind::eager) &&
                     small[1] <= static_cast<std::uint8_t>(MessageKind::credit);
  for (const std::size_t reserved : {5, 6, 7, 12, 13, 14, 15}) {
    if (bytes[reserved] != std::byte{0}) return std::nullopt;
  }
  if (magic != kMagic || small[0] != kVersion || !known || small[2] >= kDataTypeCount) return std::nullopt;
  MessageHeader header;
  header.kind = static_cast<MessageKind>(small[1]);
  header.type = static_cast<DataType>(small[2]);
  std::memcpy(&header.tag, bytes.data() + 8, 4);
  std::memcpy(&header.count, bytes.data() + 16, 8);
  std::memcpy(&header.id, bytes.data() + 24, 8);
  return header;
}

}  // namespace trireme
