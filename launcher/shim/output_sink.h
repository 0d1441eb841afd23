// OutputSink: one of the launcher's own output streams, written without ever blocking.
//
// A reader that does not keep up must not stop the supervision of ranks, so what the
// stream does not take is queued, and the shim reads less from the ranks while the queue
// is long. Regular files are written at once. Thread safety: none.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "launcher/system/descriptors.h"
#include "launcher/system/event_loop.h"

namespace trireme {

class OutputSink {
 public:
  // `on_change` is called when the queue became empty, and when the reader went away.
  OutputSink(EventLoop& loop, int fd, std::function<void()> on_change);
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  void write(std::string_view text);
  std::size_t pending_bytes() const { return queue_.size() - written_; }
  // Not ok when the stream cannot be written any more: everything is dropped from now on.
  const Status& closed() const { return closed_; }
  bool is_terminal() const { return kind_.terminal; }

 private:
  void flush();
  void close(int error_number);

  EventLoop& loop_;
  StreamKind kind_;
  UniqueFd own_;
  int fd_;
  std::function<void()> on_change_;
  std::string queue_;
  std::size_t written_ = 0;  // Of queue_.
  Status closed_;
  bool watched_ = false;
};

}  // namespace trireme
