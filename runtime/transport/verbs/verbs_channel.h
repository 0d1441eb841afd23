// The channel over one VerbsLink.
#pragma once

#include <functional>
#include <memory>

#include "runtime/transport/api/channel.h"
#include "runtime/transport/api/peer_watch.h"
#include "runtime/transport/verbs/verbs_link.h"

namespace trireme {

class VerbsChannel final : public Channel {
 public:
  // `close` is handed the link when the channel is destroyed.
  VerbsChannel(std::shared_ptr<VerbsLink> link, std::shared_ptr<PeerWatch> peers, int peer, std::uint64_t context,
               std::function<void(std::shared_ptr<VerbsLink>)> close)
      : link_(std::move(link)), peers_(std::move(peers)), peer_(peer), context_(context), close_(std::move(close)) {}
  ~VerbsChannel() override { close_(std::move(link_)); }

  std::span<std::byte> reserve() override { return link_->reserve(); }
  void commit(std::size_t bytes) override { link_->commit(bytes); }
  std::span<const std::byte> peek() override { return link_->peek(); }
  void consume(std::size_t bytes) override { link_->consume(bytes); }
  std::size_t send_in_place(std::span<const std::byte> data) override {
    const std::optional<std::size_t> moved = link_->send_in_place(data);
    return moved ? *moved : send_some(data);
  }
  bool progress() override { return link_->progress(); }
  bool drained() const override { return link_->drained(); }
  std::string_view transport() const override { return "verbs"; }
  Status status() const override {
    if (Status dead = peers_->status(peer_); !dead.is_ok()) return dead;
    if (link_->ended()) return peers_->closed_by(peer_, context_);
    return link_->error();
  }

 private:
  std::shared_ptr<VerbsLink> link_;
  std::shared_ptr<PeerWatch> peers_;
  int peer_;
  std::uint64_t context_;
  std::function<void(std::shared_ptr<VerbsLink>)> close_;
};

}  // namespace trireme
