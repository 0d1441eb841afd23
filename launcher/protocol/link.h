// Link: messages over a stream socket, without blocking.
//
// On the wire a message is its length (u32, little-endian) and its bytes. Sending queues
// what the socket does not take at once. Thread safety: none; the loop's thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/protocol/messages.h"
#include "launcher/system/event_loop.h"
#include "runtime/platform/api/sockets.h"

namespace trireme {

class Link {
 public:
  // `on_message` gets every message in order; `on_end` is called once, when the other
  // end is gone or sent garbage, and the link is closed then.
  static Result<std::unique_ptr<Link>> open(EventLoop& loop, Socket socket, std::function<void(Message)> on_message,
                                            std::function<void(const Status&)> on_end);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Dropped silently once the link has ended: on_end has told.
  void send(const Message& message);
  bool has_pending() const { return open_ && !outgoing_.empty(); }

 private:
  Link(EventLoop& loop, Socket socket) : loop_(loop), socket_(std::move(socket)) {}
  void on_ready();
  void flush();
  Status receive();
  void deliver();
  void end(const Status& why);

  EventLoop& loop_;
  Socket socket_;
  bool open_ = true;
  std::string incoming_;
  std::string outgoing_;
  std::function<void(Message)> on_message_;
  std::function<void(const Status&)> on_end_;
};

}  // namespace trireme
