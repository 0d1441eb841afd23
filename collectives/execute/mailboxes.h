// Mailboxes: where the ranks of one host post small things for all others to read.
//
// Every rank has two slots in memory that all of them map, for its posts of even and of odd
// number. A post is the signature of the call and up to plan::kMostPostedBytes; its number,
// written last, says that it is there. A rank posts number n once all others have made
// their n-1st: then nobody reads its n-2nd any more, which lies where n comes. So nothing
// is locked, every word has one writer, and readers need not say that they have read.
//
// Who is about to sleep says so in its own memory (arm) and looks once more; who posts
// looks there after it has posted, and rings the doorbells of sleepers only.
// Thread safety: one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/execute/call.h"
#include "runtime/transport/api/peer_memory.h"

namespace trireme {

struct MailboxSlot;
struct MailboxMemory;

class Mailboxes {
 public:
  // Of one rank's memory, which is 64-byte aligned and zeroed before the first use.
  static std::size_t bytes();

  // `peers[r]` is rank r's memory, null for this rank's own; `keep` holds what `own` is in.
  // Without `compares`, signatures are not to be looked at (benchmarks only).
  Mailboxes(int rank, std::byte* own, std::shared_ptr<void> keep, std::vector<std::shared_ptr<PeerMemory>> peers,
            bool compares = true);

  bool compares() const { return compares_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(slots_.size()); }
  // The memory of all ranks has come; nothing else may be called before.
  bool ready();
  // Ranks whose memory has not come.
  std::vector<int> absent() const;
  // ok, or why the memory of some rank will not come, and whose.
  struct Failure {
    int rank = -1;
    Status status;
  };
  Failure failure() const;

  // How many posts this rank has made.
  std::uint64_t posts() const { return posts_; }
  bool may_post() { return all_have_posted(posts_); }
  // REQUIRES: may_post(); at most plan::kMostPostedBytes.
  void post(const Signature& signature, std::span<const std::byte> payload);
  bool has_posted(int rank, std::uint64_t number);
  bool all_have_posted(std::uint64_t number);
  // Of the post of that number. REQUIRES: has_posted(rank, number), and this rank has not posted number + 2.
  const Signature& signature(int rank, std::uint64_t number) const;
  const std::byte* payload(int rank, std::uint64_t number) const;

  // From now on posts ring this rank. Afterwards look once more, then sleep.
  void arm();
  void disarm();

 private:
  MailboxMemory* memory_of(int rank) const { return slots_[static_cast<std::size_t>(rank)]; }
  MailboxSlot& slot(int rank, std::uint64_t number) const;

  const int rank_;
  const bool compares_;
  const std::shared_ptr<void> keep_;
  const std::vector<std::shared_ptr<PeerMemory>> peers_;
  std::vector<MailboxMemory*> slots_;  // By rank; null until it has come.
  std::vector<std::uint64_t> seen_;    // By rank: the highest number seen there.
  bool ready_ = false;
  bool armed_ = false;
  std::uint64_t posts_ = 0;
};

}  // namespace trireme
