// The sending half: host memory through the channel below, GPU memory by naming it.
#include <algorithm>

#include "runtime/transport/cuda_ipc/cuda_ipc_channel.h"

namespace trireme {
namespace {

constexpr std::size_t kMostOpenSegments = 16;

}  // namespace

// Records go first: who sees a byte must be able to see the segments before it.
bool CudaIpcChannel::may_send() {
  pump();
  return is_usable() && records_.flushed();
}

std::span<std::byte> CudaIpcChannel::reserve() {
  return may_send() ? options_.base->reserve() : std::span<std::byte>();
}

void CudaIpcChannel::commit(std::size_t bytes) {
  options_.base->commit(bytes);
  outbound_ += bytes;
}

std::size_t CudaIpcChannel::send_some(std::span<const std::byte> data) {
  if (data.empty()) return 0;
  drop_staging_of_other(data.data());
  if (options_.device->is_device_memory(data.data())) return stage(data);
  if (!may_send()) return 0;
  const std::size_t moved = options_.base->send_some(data);
  outbound_ += moved;
  return moved;
}

std::size_t CudaIpcChannel::send_in_place(std::span<const std::byte> data) {
  if (data.empty()) return 0;
  const std::optional<CudaIpcAllocation> allocation = options_.device->allocation(data.data());
  if (!allocation) return send_some(data);
  drop_staging_of_other(data.data());
  if (staged_) return stage(data);  // What has been begun.
  if (!may_send() || !greeted_) return 0;
  if (!peer_reads_ || allocation->base == 0) return stage(data);
  CudaIpcRegion region{allocation->id, allocation->base, allocation->bytes, CudaIpcAccess::address, {}};
  if (!options_.same_process) {
    const Result<CudaIpcRegion> shared = options_.exports->describe(*allocation);
    if (!shared.is_ok()) return stage(data);
    region = *shared;
  }
  if (open_ends_.size() >= kMostOpenSegments) return 0;
  return announce(region, data);
}

std::size_t CudaIpcChannel::announce(const CudaIpcRegion& region, std::span<const std::byte> data) {
  if (!options_.same_process && told_.insert(region.id).second) tell_of_freed_memory();
  CudaIpcRecord record;
  record.kind = CudaIpcRecord::Kind::segment;
  record.segment.region = region;
  record.segment.position = outbound_;
  record.segment.offset = reinterpret_cast<std::uintptr_t>(data.data()) - region.base;
  record.segment.bytes = std::min<std::uint64_t>(data.size(), region.bytes - record.segment.offset);
  records_.send(record);
  records_.flush();
  outbound_ += record.segment.bytes;
  announced_end_ = outbound_;
  open_ends_.push_back(outbound_);
  return record.segment.bytes;
}

void CudaIpcChannel::tell_of_freed_memory() {
  std::erase_if(told_, [&](std::uint64_t id) {
    if (options_.exports->alive(id)) return false;
    CudaIpcRecord record;
    record.kind = CudaIpcRecord::Kind::forget;
    record.id = id;
    records_.send(record);
    return true;
  });
}

void CudaIpcChannel::drop_staging_of_other(const std::byte* source) {
  if (!staged_ || staged_source_ == source) return;
  aside_.push_back(std::move(*staged_));
  staged_.reset();
}

// GPU memory through a slot: copied there, and sent from there at a later call with the
// same bytes. Called with others, what was copied is of no use.
std::size_t CudaIpcChannel::stage(std::span<const std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size() && may_send()) {
    if (!staged_ && !start_staging(data.subspan(moved))) break;
    if (state(*staged_) != CudaIpcCopyState::done) break;
    const std::size_t bytes = std::min(staged_->bytes - staged_sent_, data.size() - moved);
    const std::size_t sent = options_.base->send_some({staged_->slot + staged_sent_, bytes});
    if (sent == 0) break;
    outbound_ += sent;
    staged_sent_ += sent;
    staged_source_ += sent;
    moved += sent;
    if (staged_sent_ < staged_->bytes) continue;
    release(*staged_);
    staged_.reset();
  }
  return moved;
}

bool CudaIpcChannel::start_staging(std::span<const std::byte> data) {
  const Result<std::byte*> slot = options_.device->take_slot();
  if (!slot.is_ok()) {
    fail(slot.status());
    return false;
  }
  Piece piece;
  piece.bytes = std::min(data.size(), CudaIpcDevice::kSlotBytes);
  piece.slot = piece.target = *slot;
  const Result<CUevent> event = copy(piece.target, data.data(), piece.bytes);
  if (!event.is_ok()) {
    options_.device->give_slot(*slot);
    return false;
  }
  piece.event = *event;
  staged_ = std::move(piece);
  staged_source_ = data.data();
  staged_sent_ = 0;
  return true;
}

}  // namespace trireme
