#include "runtime/transport/cuda_ipc/cuda_ipc_records.h"

namespace trireme {

bool CudaIpcRecords::flush() {
  if (flushed()) return true;
  sent_ += channel_->send_some({reinterpret_cast<const std::byte*>(out_.data()) + sent_, out_.size() - sent_});
  if (!flushed()) return false;
  out_.clear();
  sent_ = 0;
  return true;
}

Result<std::optional<CudaIpcRecord>> CudaIpcRecords::take() {
  for (auto arrived = channel_->peek(); !arrived.empty(); arrived = channel_->peek()) {
    in_.append(reinterpret_cast<const char*>(arrived.data()), arrived.size());
    channel_->consume(arrived.size());
  }
  if (in_.empty()) return std::optional<CudaIpcRecord>();
  std::string_view rest = std::string_view(in_).substr(taken_);
  const std::size_t before = rest.size();
  auto record = CudaIpcRecord::take(rest);
  taken_ += before - rest.size();
  if (taken_ == in_.size()) {
    in_.clear();
    taken_ = 0;
  }
  return record;
}

}  // namespace trireme
