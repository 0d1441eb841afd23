// The channel over one TcpConnection.
#pragma once

#include <memory>

#include "runtime/transport/api/channel.h"
#include "runtime/transport/api/peer_watch.h"
#include "runtime/transport/tcp/tcp_connection.h"

namespace trireme {

class TcpChannel final : public Channel {
 public:
  TcpChannel(std::shared_ptr<TcpConnection> connection, std::shared_ptr<PeerWatch> peers, int peer,
             std::uint64_t context);
  ~TcpChannel() override;

  std::span<std::byte> reserve() override { return connection_->reserve(); }
  void commit(std::size_t bytes) override { connection_->commit(bytes); }
  std::span<const std::byte> peek() override { return connection_->peek(); }
  void consume(std::size_t bytes) override { connection_->consume(bytes); }
  std::size_t send_some(std::span<const std::byte> data) override { return connection_->send_some(data); }
  std::size_t receive_some(std::span<std::byte> data) override { return connection_->receive_some(data); }
  bool progress() override { return connection_->progress(); }
  Status status() const override;
  bool drained() const override { return connection_->drained(); }
  std::string_view transport() const override { return "tcp"; }
  std::size_t turn_bytes() const override { return kTcpTurnBytes; }

 private:
  std::shared_ptr<TcpConnection> connection_;
  std::shared_ptr<PeerWatch> peers_;
  int peer_;
  std::uint64_t context_;
};

}  // namespace trireme
