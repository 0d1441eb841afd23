// Meeting: where a channel opened by this rank and the connection a peer made for it
// find each other, in whichever order they come.
//
// An opening whose channel is gone before the connection came stays expected: its
// callback tells the peer so. Thread safety: all methods. A callback runs on the thread that completes the meeting,
// outside the lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/transport/api/handshake.h"

namespace trireme {

template <typename Arrival>
class Meeting {
 public:
  using Callback = std::function<void(Arrival)>;

  // The key of the next opening of `context` towards `peer`: call once per opening.
  ChannelKey next_key(int peer, std::uint64_t context) {
    const std::lock_guard lock(mutex_);
    return {peer, context, opened_[{peer, context}]++};
  }

  // Calls `callback` with the arrival for `key`, now or later, at most once.
  void expect(const ChannelKey& key, Callback callback) {
    std::unique_lock lock(mutex_);
    const auto parked = parked_.find(key);
    if (parked == parked_.end()) {
      expected_[key] = std::move(callback);
      return;
    }
    Arrival arrival = std::move(parked->second);
    parked_.erase(parked);
    lock.unlock();
    callback(std::move(arrival));
  }

  void arrive(const ChannelKey& key, Arrival arrival) {
    std::unique_lock lock(mutex_);
    const auto waiting = expected_.find(key);
    if (waiting == expected_.end()) {
      parked_.insert_or_assign(key, std::move(arrival));
      return;
    }
    Callback callback = std::move(waiting->second);
    expected_.erase(waiting);
    lock.unlock();
    callback(std::move(arrival));
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, std::uint32_t> opened_;
  std::map<ChannelKey, Callback> expected_;
  std::map<ChannelKey, Arrival> parked_;
};

}  // namespace trireme
