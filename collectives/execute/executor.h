// Executor: carries out one rank's program, one sweep at a time.
//
// sweep() gives every operation of the current round one chance to move a slice and
// never waits. Sends, receives and local work of a round overlap slice by slice;
// reductions read what has arrived where it lies.
// Nothing is allocated once the communicator's links exist and the plan is compiled.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <trireme/base/status.h>

#include "collectives/execute/arithmetic.h"
#include "collectives/execute/call.h"
#include "collectives/execute/link.h"
#include "collectives/execute/mailboxes.h"
#include "collectives/execute/windows.h"
#include "collectives/plan/api/cursor.h"

namespace trireme {

// A program with all that depends on the call but not on its buffers.
struct CompiledPlan {
  plan::Program program;
  Arithmetic arithmetic;
  std::uint8_t algorithm = 0;
  std::size_t scratch_bytes = 0;
  // Of uneven parts, which a cache's key has as a hash only.
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> receive_counts;
  // What runs instead where a buffer of some rank lies in no window; set for plans that need
  // them all to.
  std::unique_ptr<CompiledPlan> without_windows;
};

// The links of a communicator, opened when first used, and what its ranks share on a host.
class LinkTable {
 public:
  virtual ~LinkTable() = default;
  virtual Result<Link*> link(int peer) = 0;
  // REQUIRES: the ranks share the memory of one host.
  virtual Result<Mailboxes*> mailboxes() = 0;
  virtual const Windows& windows() const = 0;
};

// Another rank's call that is not ours.
struct CallMismatch {
  int peer = 0;
  std::optional<Call> theirs;  // nullopt: the bytes are no signature.
  Call ours;                   // As sent to that peer.
};

// What an unfinished operation waits for.
struct WaitEdge {
  int peer = 0;
  bool receiving = false;
};

class Executor {
 public:
  explicit Executor(LinkTable& links) : links_(links) {}

  // REQUIRES: idle. `plan`, the buffers and `custom` (null for a named reduction) stay
  // until done() or reset().
  void start(const CompiledPlan& plan, const Call& call, const void* input, void* output,
             const CustomReduction* custom = nullptr);
  // Returns true when anything moved. After an error or a mismatch, or once declined,
  // nothing moves.
  bool sweep();
  // Some rank's buffers lie in no window: all ranks know it, and the plan cannot run.
  bool declined() const { return declined_; }
  // What is waited for comes into mailboxes, and rings nobody who is awake.
  bool uses_mailboxes() const { return mailboxes_ != nullptr; }
  // Before sleeping: from now on posts ring this rank. Sweep once more after it.
  void arm();
  bool active() const { return plan_ != nullptr; }
  // True when all is done and everything sent has left this process.
  bool done() const { return done_; }
  const Status& error() const { return error_; }
  const std::optional<CallMismatch>& mismatch() const { return mismatch_; }
  // Forgets the program.
  void reset();

  // Unfinished transfers of the current round, at most `limit`.
  std::vector<WaitEdge> waiting_for(std::size_t limit) const;
  // The first broken channel among those, with its Status.
  struct BrokenLink {
    int peer;
    Status status;
  };
  std::optional<BrokenLink> broken_link() const;

 private:
  struct Run {
    const plan::Op* op;
    Link* link;
    int peer;
    std::byte* target;
    const std::byte* a;
    const std::byte* b;
    std::size_t elements;
    std::size_t moved;     // Bytes of a transfer with padding; elements of local work.
    std::uint64_t number;  // Of the posts that are fetched or waited for.
    bool posted;           // This rank has made its post of an expose or a fence.
    bool done;
  };
  // What an expose posts: where the input and the output lie, if in windows.
  struct Exposure {
    std::uint32_t in_windows = 0;  // 0 or 1.
    std::uint32_t input_window = 0;
    std::uint32_t output_window = 0;
    std::uint32_t reserved = 0;
    std::uint64_t input_offset = 0;
    std::uint64_t output_offset = 0;
  };
  // Another rank's input and output, where they are exposed.
  struct Exposed {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  bool sweep_once();
  void enter_round();
  bool prepare(const plan::Op& op, Run& run);
  bool prepare_shared(Run& run);
  std::byte* resolve(const plan::Reference& reference) const;
  bool step(Run& run);
  bool step_send(Run& run);
  bool step_receive(Run& run);
  bool step_local(Run& run);
  bool step_post(Run& run);
  bool step_synchronize(Run& run);
  bool step_fetch(Run& run);
  bool has_arrived(const Run& run);
  bool check_post(int rank, std::uint64_t number);
  Exposure own_exposure() const;
  void take_exposures(std::uint64_t number);
  void find_sources(const Run& run);
  void find_targets(const Run& run);
  void add_waits(const Run& run, std::size_t limit, std::vector<WaitEdge>& edges) const;
  bool finish_drained();
  const SignedCall& signed_call(const Run& run, SignedCall& room) const;

  LinkTable& links_;
  const CompiledPlan* plan_ = nullptr;
  Arithmetic arithmetic_;  // The plan's, with the call's own function.
  SignedCall call_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::vector<std::byte> scratch_storage_;
  std::byte* scratch_ = nullptr;  // Aligned within the storage.
  plan::Cursor cursor_;
  std::vector<Run> runs_;
  std::vector<std::pair<int, Link*>> used_;  // Links sent to in this call.
  std::size_t open_ = 0;                     // Operations of the round not done.
  bool done_ = false;
  bool declined_ = false;
  Mailboxes* mailboxes_ = nullptr;  // Once the program has used them.
  std::vector<Exposed> exposed_;    // By rank, after an expose.
  std::vector<const std::byte*> sources_;
  std::vector<Arithmetic::Destination> targets_;
  Status error_;
  std::optional<CallMismatch> mismatch_;
};

}  // namespace trireme
