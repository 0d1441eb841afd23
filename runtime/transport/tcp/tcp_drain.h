// The end of a socket: closing one that holds unread bytes makes the kernel reset the
// connection, and what it had not yet delivered of ours is lost. So we say that nothing
// more comes, drop what still arrives, and close when the peer has acknowledged all or
// has closed too.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/unique_fd.h"
#include "runtime/transport/api/reactor.h"

namespace trireme {

// Counts the connections whose channel is gone but whose bytes are not.
// Thread safety: all methods.
class TcpLingering {
 public:
  // One that lingers, as long as somebody holds it.
  static std::shared_ptr<void> hold(const std::shared_ptr<TcpLingering>& lingering);
  // Waits until none lingers; false when the deadline passed first.
  bool wait(Deadline deadline);

 private:
  void end();
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// Ends the connection of `fd`, on which nothing more will be sent; `lingering` is let go
// of when that is done, at the latest after three seconds. Never blocks.
// Thread safety: from any thread.
void drain_and_close(const std::shared_ptr<Reactor>& reactor, UniqueFd fd, std::shared_ptr<void> lingering);

}  // namespace trireme
