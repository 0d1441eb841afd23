#include "collectives/execute/mailboxes.h"

#include <algorithm>
#include <cstring>

#include <trireme/base/check.h>

#include "runtime/memory/api/streaming_copy.h"

namespace trireme {

// The shortest payloads share a cache line with number and signature.
struct MailboxSlot {
  alignas(64) std::atomic<std::uint64_t> number;
  Signature signature;
  std::byte payload[plan::kMostPostedBytes];
};

struct MailboxMemory {
  alignas(64) std::atomic<std::uint32_t> armed;  // The owner is about to sleep, or asleep.
  MailboxSlot slots[2];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "slots are shared between processes");
static_assert(offsetof(MailboxSlot, payload) % alignof(std::uint64_t) == 0, "elements need their alignment");

std::size_t Mailboxes::bytes() {
  return sizeof(MailboxMemory);
}

Mailboxes::Mailboxes(int rank, std::byte* own, std::shared_ptr<void> keep,
                     std::vector<std::shared_ptr<PeerMemory>> peers, bool compares)
    : rank_(rank),
      compares_(compares),
      keep_(std::move(keep)),
      peers_(std::move(peers)),
      slots_(peers_.size()),
      seen_(peers_.size()) {
  TRIREME_CHECK(reinterpret_cast<std::uintptr_t>(own) % alignof(MailboxMemory) == 0, "mailboxes are aligned");
  slots_[static_cast<std::size_t>(rank)] = reinterpret_cast<MailboxMemory*>(own);
}

bool Mailboxes::ready() {
  if (ready_) return true;
  ready_ = true;
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (slots_[peer] != nullptr) continue;
    const bool fits = peers_[peer]->ready() && peers_[peer]->bytes() >= bytes() &&
                      reinterpret_cast<std::uintptr_t>(peers_[peer]->base()) % alignof(MailboxMemory) == 0;
    if (fits) slots_[peer] = reinterpret_cast<MailboxMemory*>(peers_[peer]->base());
    ready_ = ready_ && fits;
  }
  return ready_;
}

std::vector<int> Mailboxes::absent() const {
  std::vector<int> ranks;
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (slots_[peer] == nullptr) ranks.push_back(static_cast<int>(peer));
  }
  return ranks;
}

Mailboxes::Failure Mailboxes::failure() const {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer] == nullptr) continue;
    if (Status status = peers_[peer]->status(); !status.is_ok()) return {static_cast<int>(peer), std::move(status)};
    if (peers_[peer]->ready() && peers_[peer]->bytes() < bytes()) {
      return {static_cast<int>(peer), data_loss("the mailboxes of rank " + std::to_string(peer) + " have " +
                                                std::to_string(peers_[peer]->bytes()) + " bytes, expected " +
                                                std::to_string(bytes()) + ": start all ranks from one build")};
    }
  }
  return {};
}

MailboxSlot& Mailboxes::slot(int rank, std::uint64_t number) const {
  return memory_of(rank)->slots[number % 2];
}

bool Mailboxes::has_posted(int rank, std::uint64_t number) {
  std::uint64_t& seen = seen_[static_cast<std::size_t>(rank)];
  if (seen >= number) return true;
  // Sequentially consistent, as the poster's store and both sides' use of `armed`.
  const std::uint64_t there = slot(rank, number).number.load(std::memory_order_seq_cst);
  if (there < number) return false;
  seen = there;
  return true;
}

bool Mailboxes::all_have_posted(std::uint64_t number) {
  for (int rank = 0; rank < size(); ++rank) {
    if (!has_posted(rank, number)) return false;
  }
  return true;
}

void Mailboxes::post(const Signature& signature, std::span<const std::byte> payload) {
  TRIREME_CHECK(payload.size() <= static_cast<std::size_t>(plan::kMostPostedBytes), "a post fits its slot");
  MailboxSlot& own = slot(rank_, ++posts_);
  own.signature = signature;
  copy_to_peer(own.payload, payload.data(), payload.size());
  own.number.store(posts_, std::memory_order_seq_cst);
  seen_[static_cast<std::size_t>(rank_)] = posts_;
  for (std::size_t peer = 0; peer < slots_.size(); ++peer) {
    if (peers_[peer] == nullptr || slots_[peer]->armed.load(std::memory_order_seq_cst) == 0) continue;
    peers_[peer]->ring();
  }
}

const Signature& Mailboxes::signature(int rank, std::uint64_t number) const {
  return slot(rank, number).signature;
}

const std::byte* Mailboxes::payload(int rank, std::uint64_t number) const {
  return slot(rank, number).payload;
}

void Mailboxes::arm() {
  armed_ = true;
  memory_of(rank_)->armed.store(1, std::memory_order_seq_cst);
}

void Mailboxes::disarm() {
  if (!armed_) return;
  armed_ = false;
  memory_of(rank_)->armed.store(0, std::memory_order_relaxed);
}

}  // namespace trireme
