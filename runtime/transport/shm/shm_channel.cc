#include "runtime/transport/shm/shm_channel.h"

#include <algorithm>

#include "runtime/memory/api/streaming_copy.h"

namespace trireme {
namespace {
// Long copies are published piece by piece: the peer works on the first meanwhile.
constexpr std::size_t kPieceBytes = 32 * 1024;
}  // namespace

ShmChannel::ShmChannel(std::shared_ptr<ShmLink> link, std::shared_ptr<PeerWatch> peers, int peer, std::uint64_t context,
                       int index)
    : link_(std::move(link)), peers_(std::move(peers)), peer_(peer), context_(context), index_(index) {}

ShmChannel::~ShmChannel() {
  link_->abandon();  // Before looking for the rings: whoever brings them later sees it.
  if (!connected()) return;
  writer_.close();
  reader_.close();
  link_->ring_peer();
}

bool ShmChannel::connected() {
  if (connected_) return true;
  RingPair* pair = link_->pair();
  if (pair == nullptr) return false;
  writer_ = RingWriter(pair, index_);
  reader_ = RingReader(pair, 1 - index_);
  return connected_ = true;
}

std::span<std::byte> ShmChannel::reserve() {
  if (!connected()) return {};
  if (writer_.reader_closed()) {
    ended_ = true;
    return {};
  }
  return writer_.reserve();
}

void ShmChannel::commit(std::size_t bytes) {
  if (writer_.commit(bytes)) link_->ring_peer();
}

std::span<const std::byte> ShmChannel::peek() {
  if (!connected()) return {};
  const std::span<const std::byte> arrived = reader_.peek();
  if (arrived.empty() && reader_.at_end()) ended_ = true;
  return arrived;
}

void ShmChannel::consume(std::size_t bytes) {
  if (reader_.consume(bytes)) link_->ring_peer();
}

// The ring's lines are in the reader's cache from the round before.
std::size_t ShmChannel::send_some(std::span<const std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size()) {
    const std::span<std::byte> room = reserve();
    const std::size_t bytes = std::min({room.size(), data.size() - moved, kPieceBytes});
    if (bytes == 0) break;
    copy_to_peer(room.data(), data.data() + moved, bytes);
    commit(bytes);
    moved += bytes;
  }
  return moved;
}

bool ShmChannel::progress() {
  return connected() && (reader_.has_data() || writer_.room_grew());
}

Status ShmChannel::status() const {
  if (Status dead = peers_->status(peer_); !dead.is_ok()) return dead;
  if (writer_.corrupt() || reader_.corrupt()) {
    return data_loss("shm channel of context " + std::to_string(context_) + " with rank " + std::to_string(peer_) +
                     ": the ring's positions are impossible; a process has overwritten shared memory");
  }
  if (Status error = link_->error(); !error.is_ok()) return error;
  return ended_ ? peers_->closed_by(peer_, context_) : Status::ok();
}

}  // namespace trireme
