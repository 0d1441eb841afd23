// What the ranks of a communicator share on one host: mailboxes for small calls, and
// windows, memory that all of them map.
#include <algorithm>

#include <fmt/core.h>
#include <trireme/base/hash.h>
#include <trireme/base/units.h>

#include "collectives/execute/core.h"

namespace trireme {
namespace {

constexpr std::size_t kPageBytes = 4096;

}  // namespace

Result<Mailboxes*> Core::mailboxes() {
  if (mailboxes_ != nullptr) return mailboxes_.get();
  const std::size_t bytes = Mailboxes::bytes();
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<SharedHeap> heap,
                           SharedHeap::create("trireme-mailboxes", bytes + kPageBytes));
  TRIREME_ASSIGN_OR_RETURN(void* const memory, heap->allocate(bytes));
  TRIREME_ASSIGN_OR_RETURN(std::vector<std::shared_ptr<PeerMemory>> peers, exchange_memory(context_, *heap, memory));
  mailboxes_ = std::make_unique<Mailboxes>(rank_, static_cast<std::byte*>(memory), std::move(heap), std::move(peers),
                                           engine_->is_guarded());
  return mailboxes_.get();
}

// Gives `heap` from `memory` on to all other members, and gets theirs, sooner or later.
Result<std::vector<std::shared_ptr<PeerMemory>>> Core::exchange_memory(std::uint64_t context, SharedHeap& heap,
                                                                       const void* memory) {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(memory) - heap.base());
  std::vector<std::shared_ptr<PeerMemory>> peers(members_.size());
  for (int d = 1; d < size(); ++d) {
    const auto peer = static_cast<std::size_t>((rank_ + d) % size());
    TRIREME_ASSIGN_OR_RETURN(peers[peer], engine_->fabric()->exchange_memory(members_[peer], context, heap, offset));
  }
  heap.close_descriptor();  // The peers' copies travel.
  return peers;
}

// Calls come in one order on all ranks, and so do windows: what a call may use is known
// when it is made. What runs staged has buffers of its own.
bool Core::may_use_windows(const OperationState& operation) const {
  const bool staged = operation.details != nullptr && operation.details->staging != nullptr;
  return shares_memory_ && !windows_.empty() && !staged;
}

// Some rank's buffers lie in no window, and all ranks know it: they take the other plan.
void Core::restart_without_windows(const OperationState& operation) {
  executor_.reset();
  executor_.start(*current_plan_->without_windows, operation.call, operation.input, operation.output,
                  operation.details == nullptr ? nullptr : operation.details->custom.get());
}

Result<void*> Core::allocate(std::size_t bytes) {
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<SharedHeap> heap, SharedHeap::create("trireme-window", bytes + kPageBytes));
  TRIREME_ASSIGN_OR_RETURN(void* const memory, heap->allocate(std::max<std::size_t>(bytes, 1)));
  std::vector<Windows::Part> parts(members_.size());
  parts[static_cast<std::size_t>(rank_)] = {static_cast<std::byte*>(memory), bytes};
  const std::uint64_t number = ++allocations_;
  std::vector<std::shared_ptr<PeerMemory>> peers;
  if (shares_memory_) {
    const std::uint64_t context = hash64(fmt::format("{}/window/{}", context_, number));
    TRIREME_ASSIGN_OR_RETURN(peers, exchange_memory(context, *heap, memory));
    TRIREME_RETURN_IF_ERROR(await_memory(peers, bytes));
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      if (peers[peer] != nullptr) parts[peer] = {peers[peer]->base(), peers[peer]->bytes()};
    }
  }
  const std::lock_guard lock(mutex_);
  using Kept = std::pair<std::shared_ptr<SharedHeap>, std::vector<std::shared_ptr<PeerMemory>>>;
  windows_.add(std::move(parts), std::make_shared<Kept>(std::move(heap), std::move(peers)));
  return memory;
}

// All members have called allocate(), or one of them never will.
Status Core::await_memory(const std::vector<std::shared_ptr<PeerMemory>>& peers, std::size_t bytes) {
  const Deadline deadline = Deadline::after_ms(static_cast<std::uint64_t>(engine_->timeout_ms()));
  Doorbell& bell = engine_->fabric()->doorbell();
  for (;;) {
    const std::uint32_t seen = bell.value();
    int missing = -1;
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      if (peers[peer] == nullptr || peers[peer]->ready()) continue;
      TRIREME_RETURN_IF_ERROR(peers[peer]->status());
      if (missing < 0) missing = static_cast<int>(peer);
    }
    if (missing < 0) return {};
    TRIREME_RETURN_IF_ERROR(status());
    if (bell.wait(seen, deadline)) continue;
    const std::string& name = engine_->names()[static_cast<std::size_t>(members_[static_cast<std::size_t>(missing)])];
    return deadline_exceeded(
        fmt::format("allocate({}): {} has not called it within {} ms; all ranks of the communicator must",
                    format_bytes(bytes), name, engine_->timeout_ms()));
  }
}

Status Core::deallocate(const void* memory) {
  if (memory == nullptr) return {};
  const std::lock_guard lock(mutex_);
  if (windows_.remove(memory)) return {};
  return invalid_argument("deallocate(): the pointer is none that allocate() of this communicator gave");
}

void* Core::mapped(const void* memory, int rank) const {
  const std::lock_guard lock(mutex_);
  const auto place = windows_.find(memory, 1);
  return place ? windows_.at(rank, *place, 1).value_or(nullptr) : nullptr;
}

}  // namespace trireme
