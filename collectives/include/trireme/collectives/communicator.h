// Communicator: collectives and messages among a group of ranks.
//
// Calls are collective: every member makes the same calls in the same order with the
// same count, type, operation and root. That is checked on every call; a rank that
// disagrees is named, with both calls, in every member within a second.
//
// Blocking calls return when this rank's part is done and its buffers may be reused.
// The *_async forms return a Work. Buffers belong to the runtime until it is done: an
// input must not be written, an output neither read nor written. Dropping a Work does
// not cancel it; the communicator keeps what it needs and completes it in the
// background. One progress thread per communicator group drives works nobody waits for.
//
// In place: output == input for all_reduce, reduce, broadcast; for all_gather (and gather
// at the root) the input may be output + rank * count, for reduce_scatter (and scatter at
// the root) the output may be input + rank * count. all_to_all has no form in place. With
// uneven parts, "rank * count" is the sum of the counts before. Any other overlap is
// refused (invalid_argument). Elements are contiguous: a strided view (a transposed
// tensor, a column) has no pointer-and-count form and must be packed first.
//
// A call fails when for its deadline (CommunicatorOptions::timeout_ms) it has made no
// progress: no byte of it moved on this rank. A call that waits behind an earlier one of
// its communicator begins to count when it begins. For a message, a large one between the
// same two ranks counts as progress too, as it may be in the way. A call that moves, be it
// slowly, is never ended.
//
// After an error (a dead peer, a mismatch, a passed deadline) the communicator is
// broken: every member's current and later call returns the same Status, outputs hold
// unspecified values, inputs are unchanged (unless in place). Make a new one.
//
// Order of reduction is fixed by the plan: the same ranks, count and type give the same
// bits in every run, and all ranks get the same bits. Sums of low-precision types are
// carried in f32 between ranks and rounded once. With CommunicatorOptions::reproducible,
// sums and averages of floating-point types do not depend on order at all: the same
// contributions give the same bits whatever the algorithm, chunking, transport, order or
// grouping of ranks; products of them are refused (unsupported), minima, maxima and
// integers never depended on it. Its way and price: docs/algorithms.md.
//
// Thread safety: calls on one communicator from one thread at a time; different
// communicators from different threads freely, in any order. abort(): any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/base/status.h>
#include <trireme/collectives/backend.h>
#include <trireme/collectives/reduction.h>
#include <trireme/rendezvous/world.h>

namespace trireme {

struct CommunicatorOptions {
  // Deadline of every call; 0: TRIREME_TIMEOUT_MS or its default. It ends a call of which no
  // byte has moved for that long, however long the call as a whole takes.
  std::int64_t timeout_ms = 0;
  std::string transport;  // Forces one ("shm", "tcp"); "" chooses per pair.
  std::string algorithm;  // Forces one ("ring", ...); "" chooses per call.
  // Sums and averages of floating-point types do not depend on order; the same on all ranks.
  bool reproducible = false;
  std::string backend;  // Who moves the data: "ours", "mpi" or "nccl"; "": what TRIREME_BACKEND says, or ours.
};

// A started operation. A value: copies refer to the same operation.
class Work {
 public:
  Work() = default;  // Done, ok.
  // Advances the operation and returns when it is done, failed or past its deadline.
  Status wait();
  // True when done or failed; advances without blocking.
  bool test();

 private:
  friend class Communicator;
  friend class Group;
  struct Operation;
  explicit Work(std::shared_ptr<Operation> operation);
  std::shared_ptr<Operation> operation_;
};

// Elements per rank, in order of rank.
using Counts = std::span<const std::size_t>;

class Communicator {
 public:
  // All ranks of the world. Collective.
  static Result<std::shared_ptr<Communicator>> create(std::shared_ptr<World> world,
                                                      const CommunicatorOptions& options = {});
  ~Communicator();

  int rank() const;
  int size() const;
  World& world() const;
  int world_rank(int rank) const;
  // Who moves the data, and what it can do.
  const BackendInfo& backend() const;

  // Members with the same `color` form a new communicator, ordered by `key`, then rank.
  // Collective; a negative color gives no communicator (nullptr).
  Result<std::shared_ptr<Communicator>> split(int color, int key);

  // After a failure, or without one: the ranks that go on form a new communicator, in the
  // order they have here. Called by all survivors but `excluded` (ranks of this communicator
  // that are alive and do not go on); they wait for each other, not for the dead, and agree
  // through the world's store on who has come. Failures of the others no longer concern the
  // new communicator. This one stays as it is. Errors: deadline_exceeded naming who has not
  // come; the end of the store.
  Result<std::shared_ptr<Communicator>> shrink(const std::vector<int>& excluded = {});

  // A window: memory of this rank that all members map, if they are on one host. Collectives
  // whose buffers lie in windows on all ranks are carried out in place, without a copy
  // between; where some rank's do not, the call is carried out as any other. Members on
  // several hosts get memory that nobody maps. `bytes` may differ between ranks and may be 0;
  // the memory is zeroed and 64-byte aligned. Collective, in order with the other calls: on
  // one host it returns once all members have called it. It is this communicator's until
  // deallocate(), or until the communicator is destroyed.
  // After an error a peer that has not learned of it yet may still write the output of the
  // failed call: let the window go with its communicator, and do not use it in another one.
  // Errors: resource_exhausted; deadline_exceeded naming who has not called; what has broken
  // the communicator.
  Result<void*> allocate(std::size_t bytes);
  // Gives back what one allocate() gave, on all ranks, in order with the other calls.
  // REQUIRES: no call still uses it. Errors: invalid_argument.
  Status deallocate(void* memory);
  // Where this rank finds, in the window part of `rank`, what `memory` is in its own: at the
  // same distance from the beginning. Null when there is no such place, or it is not mapped. REQUIRES: 0 <= rank < size().
  void* mapped(const void* memory, int rank) const;

  // `count` elements everywhere, unless said otherwise. Zero is legal.
  Status all_reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op);
  Status reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op, int root);
  Status broadcast(const void* input, void* output, std::size_t count, DataType type, int root);
  // Each rank gives `count`; everyone gets size() * count, in rank order.
  Status all_gather(const void* input, void* output, std::size_t count, DataType type);
  // Each rank gives size() * count and gets the reduction of its own `count`.
  Status reduce_scatter(const void* input, void* output, std::size_t count, DataType type, const Reduction& op);
  // The root gets size() * count, in rank order; the others' output is not used.
  Status gather(const void* input, void* output, std::size_t count, DataType type, int root);
  // The root gives size() * count, of which rank r gets part r; the others' input is not used.
  Status scatter(const void* input, void* output, std::size_t count, DataType type, int root);
  // Part r of the input goes to rank r; part r of the output came from rank r.
  Status all_to_all(const void* input, void* output, std::size_t count, DataType type);
  Status barrier();

  // Uneven parts, packed one after the other without gaps: part r has counts[r] elements.
  // `counts` has size() entries, the same on all ranks (checked).
  Status all_gather_v(const void* input, void* output, Counts counts, DataType type);
  Status reduce_scatter_v(const void* input, void* output, Counts counts, DataType type, const Reduction& op);
  Status gather_v(const void* input, void* output, Counts counts, DataType type, int root);
  Status scatter_v(const void* input, void* output, Counts counts, DataType type, int root);
  // Each rank knows its own: send_counts[r] elements go to rank r, receive_counts[r] come
  // from there. What two ranks say about each other must agree (checked).
  Status all_to_all_v(const void* input, Counts send_counts, void* output, Counts receive_counts, DataType type);

  // Messages match in order per (sender, tag). A receive of another count or type than
  // was sent is a mismatch. tag >= 0.
  Status send(const void* data, std::size_t count, DataType type, int destination, int tag = 0);
  Status receive(void* data, std::size_t count, DataType type, int source, int tag = 0);

  Work all_reduce_async(const void* input, void* output, std::size_t count, DataType type, const Reduction& op);
  Work reduce_async(const void* input, void* output, std::size_t count, DataType type, const Reduction& op, int root);
  Work broadcast_async(const void* input, void* output, std::size_t count, DataType type, int root);
  Work all_gather_async(const void* input, void* output, std::size_t count, DataType type);
  Work reduce_scatter_async(const void* input, void* output, std::size_t count, DataType type, const Reduction& op);
  Work gather_async(const void* input, void* output, std::size_t count, DataType type, int root);
  Work scatter_async(const void* input, void* output, std::size_t count, DataType type, int root);
  Work all_to_all_async(const void* input, void* output, std::size_t count, DataType type);
  Work barrier_async();
  // Counts are copied.
  Work all_gather_v_async(const void* input, void* output, Counts counts, DataType type);
  Work reduce_scatter_v_async(const void* input, void* output, Counts counts, DataType type, const Reduction& op);
  Work gather_v_async(const void* input, void* output, Counts counts, DataType type, int root);
  Work scatter_v_async(const void* input, void* output, Counts counts, DataType type, int root);
  Work all_to_all_v_async(const void* input, Counts send_counts, void* output, Counts receive_counts, DataType type);
  Work send_async(const void* data, std::size_t count, DataType type, int destination, int tag = 0);
  Work receive_async(void* data, std::size_t count, DataType type, int source, int tag = 0);

  // Lets pending works move without waiting: call it between layers of a long compute.
  void poll();
  // ok, or why the communicator is broken.
  Status status() const;
  // Breaks this communicator for all its members; never waits for a peer.
  void abort(const std::string& reason);
  // Which transport each peer is reached by and which algorithm a call would take, and why.
  std::string explain() const;
  // The transport that reaches a rank ("shm"); "" for this rank. REQUIRES: 0 <= peer < size().
  std::string transport_to(int peer) const;
  // The same for one call.
  std::string explain_all_reduce(std::size_t count, DataType type, ReduceOp op) const;

 private:
  friend class Group;
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
