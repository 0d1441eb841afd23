#include "runtime/transport/api/channel.h"

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {
// Long copies are published piece by piece, so that the peer works on the first piece
// while we copy the next, in caches both still hold.
constexpr std::size_t kPieceBytes = 64 * 1024;
}  // namespace

std::size_t Channel::send_some(std::span<const std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size()) {
    const std::span<std::byte> room = reserve();
    const std::size_t bytes = std::min({room.size(), data.size() - moved, kPieceBytes});
    if (bytes == 0) break;
    std::memcpy(room.data(), data.data() + moved, bytes);
    commit(bytes);
    moved += bytes;
  }
  return moved;
}

std::size_t Channel::receive_some(std::span<std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size()) {
    const std::span<const std::byte> arrived = peek();
    const std::size_t bytes = std::min({arrived.size(), data.size() - moved, kPieceBytes});
    if (bytes == 0) break;
    std::memcpy(data.data() + moved, arrived.data(), bytes);
    consume(bytes);
    moved += bytes;
  }
  return moved;
}

}  // namespace trireme
