#include "runtime/transport/tcp/tcp_switchboard.h"

namespace trireme {

ChannelKey TcpSwitchboard::next_key(int peer, std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  return {peer, context, opened_[{peer, context}]++};
}

void TcpSwitchboard::expect(const ChannelKey& key, const std::shared_ptr<TcpConnection>& connection) {
  connection->on_closed([weak = weak_from_this(), key] {
    if (const auto self = weak.lock()) self->forget(key);
  });
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[key];
    entry.awaiting = connection;
    entry.connection = connection;
    entry.opened = true;
    if (entry.parked.empty()) return;
  }
  reactor_->run_soon([self = shared_from_this(), key] { self->deliver(key); });
}

void TcpSwitchboard::arrive(const ChannelKey& key, TcpLink link) {
  {
    const std::lock_guard lock(mutex_);
    // A further stream of a channel that has closed here has no entry: its socket closes.
    if (link.stream > 0 && !entries_.contains(key)) return;
    Entry& entry = entries_[key];
    if (entry.parked.size() >= kMostTcpStreams) return;
    entry.parked.push_back(std::move(link));
    if (!entry.opened) return;
  }
  deliver(key);
}

// On the service thread, as arrive() is: so the streams are attached in their order.
void TcpSwitchboard::deliver(const ChannelKey& key) {
  std::shared_ptr<TcpConnection> connection;
  std::vector<TcpLink> links;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    connection = found->second.connection.lock();
    links.swap(found->second.parked);
    if (!links.empty()) found->second.awaiting.reset();
  }
  if (!connection) return;
  for (TcpLink& link : links) connection->attach(std::move(link));
}

void TcpSwitchboard::forget(const ChannelKey& key) {
  std::shared_ptr<TcpConnection> last;  // Not destroyed under the lock.
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  last = std::move(found->second.awaiting);
  entries_.erase(found);
}

}  // namespace trireme
