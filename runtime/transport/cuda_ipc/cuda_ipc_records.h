// CudaIpcRecords: the narrow channel beside a channel, as a queue of records out and in.
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <trireme/base/status.h>

#include "runtime/transport/api/channel.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_wire.h"

namespace trireme {

class CudaIpcRecords {
 public:
  explicit CudaIpcRecords(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  void send(const CudaIpcRecord& record) { out_ += record.encode(); }
  // Moves what can be moved; true when the peer can see every record sent.
  bool flush();
  bool flushed() const { return sent_ == out_.size(); }
  // The next record that has come, if any. Errors: data_loss.
  Result<std::optional<CudaIpcRecord>> take();
  bool progress() { return channel_->progress(); }
  Status status() const { return channel_->status(); }

 private:
  std::unique_ptr<Channel> channel_;
  std::string out_;
  std::size_t sent_ = 0;  // Of out_.
  std::string in_;
  std::size_t taken_ = 0;  // Of in_.
};

}  // namespace trireme
