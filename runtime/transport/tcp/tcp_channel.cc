#include "runtime/transport/tcp/tcp_channel.h"

namespace trireme {

TcpChannel::TcpChannel(std::shared_ptr<TcpConnection> connection, std::shared_ptr<PeerWatch> peers, int peer,
                       std::uint64_t context)
    : connection_(std::move(connection)), peers_(std::move(peers)), peer_(peer), context_(context) {}

TcpChannel::~TcpChannel() {
  // Nobody reads what is left for a rank that is known to be dead.
  connection_->close(!peers_->status(peer_).is_ok());
}

Status TcpChannel::status() const {
  if (Status dead = peers_->status(peer_); !dead.is_ok()) return dead;
  if (Status error = connection_->error(); !error.is_ok()) return error;
  return connection_->ended() ? peers_->closed_by(peer_, context_) : Status::ok();
}

}  // namespace trireme
