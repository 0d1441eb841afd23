// Builder: writes a Program down, loop by loop, and the small vocabulary algorithms use.
#pragma once

#include <utility>

#include "collectives/plan/api/plan.h"
#include "collectives/plan/api/simulate.h"

namespace trireme::plan {

class Builder {
 public:
  // The usual layouts: gathers and scatters have `chunks` (one per rank) on the wide side
  // and one on the narrow one; the others cut input and output into `chunks`. Lengths are
  // parts of the wide side. Uneven parts: one chunk per rank, of the request's counts;
  // part n + r of an all_to_all's lengths is what rank r sends here.
  Builder(const Request& request, int rank, std::int32_t chunks);

  // Reserves scratch slots that hold the largest part each.
  void scratch(std::int32_t slots);
  // Reserves a slot per part, laid out as they are, so that spans of slots fit spans of parts.
  void scratch_as_partition();
  // Starts a loop (its first round included); later ops go there.
  Builder& loop(std::int32_t iterations);
  // Starts another round of the current loop.
  Builder& round();
  Builder& add(const Op& op);
  Program take() { return std::move(program_); }

 private:
  Program program_;
};

// base + stride * i modulo n: chunks and peers around the ring of n.
inline Affine around(std::int32_t base, std::int32_t stride, std::int32_t n) {
  return {base, stride, n};
}

// The index of the length of what rank `source` sends here in an all_to_all.
std::int32_t received_part(const Request& request, int source);

Reference input(Affine chunk);
Reference output(Affine chunk);
Reference scratch(Affine slot);
// Chunk `chunk` of what a peer has posted.
Reference posted(Affine chunk);

// The wire's representation follows from the buffer sent.
Op send(Reference source, Affine peer, Affine length);
Op receive(Reference target, Affine peer, Affine length, Wire wire = Wire::element);
Op copy(Reference target, Reference source, Affine length, bool finish = false);
Op reduce(Reference target, Reference left, Reference right, Affine length, bool finish = false);
// target = own + incoming
Op receive_after(Reference target, Reference own, Affine peer, Affine length, Wire wire, bool finish = false);
// target = incoming + own
Op receive_before(Reference target, Reference own, Affine peer, Affine length, Wire wire, bool finish = false);

// All others may fetch `source`; or, without one, know that this rank has come so far.
Op post(Reference source, Affine length);
Op post_nothing();
Op fetch(Reference target, Reference source, Affine peer, Affine length);
// target = what rank 0 has at `source` + what rank 1 has there + ...
Op fetch_reduce(Reference target, Reference source, Affine length);
Op expose();
Op fence();
// The same operation, whose target lies in the output of `root`, or of all ranks.
Op placed_at(int root, Op op);
Op placed_everywhere(Op op);

// One pattern of messages usually serves several collectives: who sends to whom is the
// same, what is added differs. An algorithm states its makers and asks which applies.
struct Makers {
  using Maker = Program (*)(const Request& request, int rank);
  Maker all_reduce = nullptr;
  Maker reduce_scatter = nullptr;
  Maker all_gather = nullptr;
  Maker reduce = nullptr;
  Maker broadcast = nullptr;
  Maker gather = nullptr;
  Maker scatter = nullptr;
  Maker all_to_all = nullptr;
  Maker barrier = nullptr;

  bool covers(const Request& request) const { return pick(request) != nullptr; }
  // REQUIRES: covers(request).
  Program make(const Request& request, int rank) const { return pick(request)(request, rank); }

 private:
  Maker pick(const Request& request) const;
};

// The same operation on `chunks` consecutive chunks.
Op spanning(std::int32_t chunks, Op op);

// Bytes of a rank's buffer, as elements and as accumulators.
double element_bytes(const Request& request, double elements);
double accumulator_bytes(const Request& request, double elements);
// Elements of the largest of `parts` balanced parts.
double largest_part(std::int64_t elements, std::int32_t parts);

}  // namespace trireme::plan
