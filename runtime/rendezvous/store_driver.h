// The thread that feeds a StoreState from sockets and carries out its actions.
//
// One epoll loop. Events that come from other threads (announce_death, begin_epoch) are
// applied to the state on the caller's thread under the lock, so that they hold when the
// call returns; all actions, whoever caused them, are carried out in one order by the loop.
// A connection that is closed first gets what is queued for it, then its sending side is
// shut, and what still arrives is discarded until the peer closes or kDrainMs passed: a
// reset could destroy the last words on their way.
// Thread safety: the public methods.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/event_fd.h"
#include "runtime/rendezvous/output_queue.h"
#include "runtime/rendezvous/store_state.h"

namespace trireme::store {

class StoreDriver {
 public:
  using NotifyCallback = std::function<void(int rank, std::string_view topic, std::string_view value)>;

  StoreDriver(Listener listener, EventFd wake, UniqueFd epoll, StoreConfig config, NotifyCallback on_notify);
  ~StoreDriver();

  const std::string& address() const { return listener_.address().text; }
  // Applies `event` to the state; the loop carries out its actions.
  void apply(const std::function<void(StoreState&, Actions&)>& event);
  std::string describe_membership() const;
  bool wait_until_empty(Deadline deadline) const;

 private:
  struct Peer {
    Socket socket;
    FrameReader reader{kMaxHandshakeFrameBytes, true};
    OutputQueue output;
    bool member = false;
    bool closing = false;  // No event reaches the state any more.
    bool shut = false;     // Everything is sent, the sending side is shut.
    bool wants_write = false;
  };

  void loop();
  int next_timeout_ms() const;
  int timeout_ms(std::uint64_t now_ms) const;
  void accept_all();
  void pause_accepting(std::uint64_t now_ms);
  void on_readable(ConnectionId id);
  // Hands the frames that are complete to the state. False when the peer is closing.
  bool deliver(ConnectionId id, Peer& peer);
  void lose(ConnectionId id);
  void carry_out();
  void carry_out(const Action& action);
  void flush(ConnectionId id, Peer& peer);
  void run_timers(std::uint64_t now_ms);
  void finish();

  Listener listener_;
  EventFd wake_;
  UniqueFd epoll_;
  NotifyCallback on_notify_;
  const bool same_user_only_;

  mutable std::mutex mutex_;  // state_, queued_, stop_
  mutable std::condition_variable changed_;
  StoreState state_;
  Actions queued_;
  bool stop_ = false;

  // The loop's own.
  std::unordered_map<ConnectionId, Peer> peers_;
  std::deque<std::pair<std::uint64_t, ConnectionId>> drain_timers_;
  ConnectionId next_connection_ = 16;
  std::uint64_t accept_again_ms_ = 0;  // Not 0: out of descriptors, the listener rests.
  std::thread thread_;                 // Last: starts when all else is there.
};

}  // namespace trireme::store
