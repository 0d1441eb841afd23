// Frames on their way out of a non-blocking socket. Large payloads are shared by all the
// queues that hold them, never copied; small frames are gathered into few system calls.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include <trireme/base/status.h>

#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/protocol.h"

namespace trireme::store {

class OutputQueue {
 public:
  void push_bytes(std::string_view bytes) { tail().append(bytes), bytes_ += bytes.size(); }
  void push(MessageType type, std::uint64_t id, const std::shared_ptr<const std::string>& payload);
  // Sends what the socket takes now. Errors: the socket's; the queue is then useless.
  Status flush(Socket& socket);
  bool empty() const { return bytes_ == 0; }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Chunk {
    std::string owned;
    std::shared_ptr<const std::string> shared;  // When set, instead of `owned`.
  };
  std::string& tail();
  std::deque<Chunk> chunks_;
  std::size_t sent_of_front_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::store
