#include "launcher/shim/output_sink.h"

namespace trireme {
namespace {

// Where the stream could not be opened anew, a blocking write of at most this much does
// not block once the kernel has said "ready" (PIPE_BUF).
constexpr std::size_t kSmallWriteBytes = 4096;

}  // namespace

OutputSink::OutputSink(EventLoop& loop, int fd, std::function<void()> on_change)
    : loop_(loop), kind_(stream_kind(fd)), fd_(fd), on_change_(std::move(on_change)) {
  if (kind_.regular_file || kind_.socket) return;
  Result<UniqueFd> own = reopen_for_writing(fd);
  if (!own.is_ok()) return;
  own_ = std::move(own).value();
  fd_ = own_.get();
}

OutputSink::~OutputSink() {
  if (watched_) loop_.forget(fd_);
}

void OutputSink::write(std::string_view text) {
  if (!closed_.is_ok() || text.empty()) return;
  queue_ += text;
  if (watched_) return;  // Waiting for the reader.
  if (!own_.valid() && !kind_.regular_file) {
    // May block: wait for readiness first. What cannot be watched never blocks.
    watched_ = loop_.watch(fd_, EventLoop::kWrite, [this] { flush(); }).is_ok();
    if (watched_) return;
  }
  flush();
}

void OutputSink::flush() {
  const bool had_queue = watched_;
  const std::size_t most = own_.valid() || kind_.regular_file ? std::string::npos : kSmallWriteBytes;
  while (closed_.is_ok() && written_ < queue_.size()) {
    const Transfer sent = write_some(fd_, std::string_view(queue_).substr(written_, most));
    if (sent.state == Transfer::State::would_block) break;
    if (sent.state != Transfer::State::moved) return close(sent.error_number);
    written_ += sent.bytes;
    if (most != std::string::npos && watched_) break;  // Ask again whether it would block.
  }
  if (written_ == queue_.size()) {
    queue_.clear();
    written_ = 0;
    if (watched_) loop_.forget(fd_);
    watched_ = false;
    if (had_queue) on_change_();
    return;
  }
  if (written_ > (std::size_t{1} << 20)) {
    queue_.erase(0, written_);
    written_ = 0;
  }
  if (!watched_) watched_ = loop_.watch(fd_, EventLoop::kWrite, [this] { flush(); }).is_ok();
}

void OutputSink::close(int error_number) {
  closed_ = errno_status(error_number, "write");
  queue_.clear();
  written_ = 0;
  if (watched_) loop_.forget(fd_);
  watched_ = false;
  on_change_();
}

}  // namespace trireme
