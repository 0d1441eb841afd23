// Sending out of memory that is not ours: the device reads it itself.
#include <algorithm>

#include "runtime/transport/verbs/verbs_link.h"

namespace trireme {
namespace {

// Below, copying costs less than looking for a registration.
constexpr std::size_t kWorthRegistering = 32 * 1024;

}  // namespace

std::optional<std::size_t> VerbsLink::send_in_place(std::span<const std::byte> data) {
  const CudaDriver* driver = options_.registrations->driver();
  const bool on_gpu = driver != nullptr && device_allocation(driver, data.data()).has_value();
  if (data.size() < kWorthRegistering && !on_gpu) return std::nullopt;
  const auto registration = options_.registrations->get(data.data(), data.size());
  const std::lock_guard lock(mutex_);
  if (joined_) poll();
  if (receive_.peer_closed()) {
    ended_ = true;
    return 0;
  }
  if (!registration.is_ok() && !on_gpu) return std::nullopt;
  if (!registration.is_ok()) return stage_from_gpu(data);
  std::size_t moved = 0;
  // What is staged goes first; until it is posted, nothing may pass it.
  while (usable() && send_.unposted() == 0 && moved < data.size()) {
    const std::optional<VerbsFragment> fragment = send_.next_in_place(data.size() - moved);
    if (!fragment) break;
    sources_[fragment->number % sources_.size()] = *registration;
    post_fragment(*fragment, data.data() + moved, (*registration)->local_key(*rails_[fragment->rail].end.device));
    moved += fragment->bytes;
  }
  if (moved < data.size()) wait_for_news();
  return moved;
}

std::size_t VerbsLink::stage_from_gpu(std::span<const std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size() && send_.room() > 0) {
    const std::uint64_t begin = send_.tail() % options_.ring_bytes;
    const std::size_t bytes = std::min<std::size_t>({data.size() - moved, send_.room(), options_.ring_bytes - begin});
    const int error = options_.registrations->driver()->cuMemcpyDtoH(
        send_ring() + begin, reinterpret_cast<std::uint64_t>(data.data()) + moved, bytes);
    if (error != 0) {
      break_with(
          io_error("copying GPU memory to the host for " + options_.peer + ": CUDA error " + std::to_string(error)));
      return moved;
    }
    send_.stage(bytes);
    moved += bytes;
  }
  push();
  if (moved < data.size()) wait_for_news();
  return moved;
}

}  // namespace trireme
