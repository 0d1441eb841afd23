// Where the sockets that peers connect find the connections of this rank's channels, in
// whichever order they come. Stream 0 of a channel always comes before its others.
// Thread safety: all methods; arrive() on the service thread only.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/transport/api/handshake.h"
#include "runtime/transport/api/reactor.h"
#include "runtime/transport/tcp/tcp_connection.h"

namespace trireme {

class TcpSwitchboard : public std::enable_shared_from_this<TcpSwitchboard> {
 public:
  explicit TcpSwitchboard(std::shared_ptr<Reactor> reactor) : reactor_(std::move(reactor)) {}

  // The key of the next opening of `context` towards `peer`: call once per opening.
  ChannelKey next_key(int peer, std::uint64_t context);
  // This rank's channel awaits its sockets. A connection that is closed before the first
  // came stays here: it delivers what it has buffered, and tells the peer of its end.
  void expect(const ChannelKey& key, const std::shared_ptr<TcpConnection>& connection);
  void arrive(const ChannelKey& key, TcpLink link);

 private:
  struct Entry {
    std::shared_ptr<TcpConnection> awaiting;  // Until stream 0 has come.
    std::weak_ptr<TcpConnection> connection;
    std::vector<TcpLink> parked;  // Came before the channel was opened here.
    bool opened = false;
  };
  void deliver(const ChannelKey& key);
  void forget(const ChannelKey& key);

  std::shared_ptr<Reactor> reactor_;
  std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, std::uint32_t> opened_;
  std::map<ChannelKey, Entry> entries_;
};

}  // namespace trireme
