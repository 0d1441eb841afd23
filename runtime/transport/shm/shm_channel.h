// The channel over two shared rings; see ring.h for how the sides wake each other.
#pragma once

#include <memory>

#include "runtime/transport/api/channel.h"
#include "runtime/transport/api/peer_watch.h"
#include "runtime/transport/shm/ring.h"
#include "runtime/transport/shm/shm_link.h"

namespace trireme {

class ShmChannel final : public Channel {
 public:
  // `index` is the ring this side writes: 0 for the lower rank, 1 for the higher.
  ShmChannel(std::shared_ptr<ShmLink> link, std::shared_ptr<PeerWatch> peers, int peer, std::uint64_t context,
             int index);
  ~ShmChannel() override;

  std::span<std::byte> reserve() override;
  void commit(std::size_t bytes) override;
  std::span<const std::byte> peek() override;
  void consume(std::size_t bytes) override;
  std::size_t send_some(std::span<const std::byte> data) override;
  bool progress() override;
  Status status() const override;
  // The ring is the peer's to read from the moment of commit().
  bool drained() const override { return true; }
  std::string_view transport() const override { return "shm"; }

 private:
  bool connected();

  std::shared_ptr<ShmLink> link_;
  std::shared_ptr<PeerWatch> peers_;
  int peer_;
  std::uint64_t context_;
  int index_;
  bool connected_ = false;
  bool ended_ = false;  // An attempt found that the peer has closed.
  RingWriter writer_;
  RingReader reader_;
};

}  // namespace trireme
