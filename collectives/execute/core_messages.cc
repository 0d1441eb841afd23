// The point-to-point part of a communicator: offices for its peers, and messages to itself.
#include <algorithm>
#include <cstring>

#include "collectives/execute/core.h"

namespace trireme {

// Messages have the odd contexts, so that they never share a channel with collectives.
Result<PostOffice*> Core::post_office(int peer) {
  std::unique_ptr<PostOffice>& office = offices_[static_cast<std::size_t>(peer)];
  if (office == nullptr) {
    auto channel = engine_->fabric()->open_channel(members_[static_cast<std::size_t>(peer)], context_ | 1);
    if (!channel.is_ok()) return channel.status();
    office = std::make_unique<PostOffice>(std::move(channel).value(), rank_);
    open_offices_.push_back(static_cast<std::size_t>(peer));
  }
  return office.get();
}

// A message to ourselves: its two halves meet here.
void Core::post_locally(OperationState& operation) {
  const auto other = std::find_if(to_self_.begin(), to_self_.end(), [&](const OperationState* candidate) {
    return candidate->call.kind != operation.call.kind && candidate->call.tag == operation.call.tag;
  });
  if (other == to_self_.end()) {
    to_self_.push_back(&operation);
    return;
  }
  OperationState* half = *other;
  to_self_.erase(other);
  OperationState& send = operation.call.kind == CallKind::send ? operation : *half;
  OperationState& receive = operation.call.kind == CallKind::send ? *half : operation;
  Status status;
  if (send.call.count != receive.call.count || send.call.type != receive.call.type) {
    const int self = engine_->world().rank();
    status = mismatch_status(engine_->names(), self, send.call, self, receive.call);
    report(status, self);
  } else if (send.call.count > 0) {
    std::memmove(receive.output, send.input, send.call.count * size_of(send.call.type));
  }
  send.complete(status);
  receive.complete(status);
  if (!status.is_ok()) break_with(status);
}

bool Core::advance_messages() {
  bool moved = false;
  for (std::size_t peer : open_offices_) {
    PostOffice* office = offices_[peer].get();
    if (office->pending() == 0) continue;
    moved |= office->advance();
    if (office->mismatch()) {
      const MessageMismatch& differs = *office->mismatch();
      report(mismatch_status(engine_->names(), engine_->world().rank(), differs.receive, members_[peer], differs.send),
             members_[peer]);
      return true;
    }
    if (!office->error().is_ok()) {
      report(office->error().with_context(engine_->names()[static_cast<std::size_t>(members_[peer])]), members_[peer]);
      return true;
    }
  }
  if (moved) pending_.store(count_pending());
  return moved;
}

// Alone, nothing but a message to oneself can be unfinished, and nobody
// will come to finish it.
void Core::refuse_waiting_for_oneself(OperationState& operation) {
  const std::lock_guard lock(mutex_);
  if (operation.done()) return;
  std::erase(to_self_, &operation);
  pending_.store(count_pending());
  operation.complete(invalid_argument(describe(operation.call) +
                                      " waits for this rank itself: start its other half (asynchronously) first"));
}

}  // namespace trireme
