// StdinSource: the launcher's standard input, for the ranks that are to read it.
//
// A rank that reads alone gets the descriptor itself: what it reads is byte-exact, and
// what it doesn't read stays for whoever shares the input with us. Where that cannot be
// (several readers, or a terminal, which only processes in its foreground may read) the
// bytes are copied into pipes, at the pace of the slowest reader.
// Thread safety: none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "launcher/protocol/messages.h"
#include "launcher/system/descriptors.h"
#include "launcher/system/event_loop.h"

namespace trireme {

class StdinSource {
 public:
  StdinSource(EventLoop& loop, const JobSpec& job);
  ~StdinSource();
  StdinSource(const StdinSource&) = delete;
  StdinSource& operator=(const StdinSource&) = delete;

  // The descriptor rank `rank` starts with, or -1 for none. What `keep` receives must
  // live until the rank is started.
  Result<int> descriptor_for(int rank, UniqueFd& keep);
  // The readers of the attempt before are gone.
  void begin_attempt();

 private:
  struct Reader {
    UniqueFd pipe;
    std::size_t sent = 0;  // Of buffer_.
  };
  bool copies() const { return job_.stdin_mode == StdinMode::all || terminal_; }
  void pump();
  void send_to(Reader& reader);
  void drop_sent();

  EventLoop& loop_;
  const JobSpec& job_;
  bool terminal_ = false;
  bool watching_ = false;
  bool pollable_ = true;
  bool ended_ = false;
  std::string buffer_;
  std::vector<Reader> readers_;
};

}  // namespace trireme
