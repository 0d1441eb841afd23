// Plan: what every rank sends, receives, reduces and copies to carry out a collective.
//
// A plan is one Program per rank. A program is a sequence of counted loops; the body of
// a loop is a sequence of rounds; the operations of one round progress concurrently and
// the next round starts when all of them are done. Operations name chunks of three
// buffers (input, output, scratch) and peers by affine functions of the loop's
// iteration, so that a ring over a thousand ranks is a handful of operations. A span
// moves several consecutive chunks in one operation.
//
// Representation: input and output hold elements. Scratch holds accumulators: elements
// too, except in a wide plan (sums of low-precision types), where they are f32 and no
// partial result may be rounded to an element before it is finished.
//
// Shared memory: ranks of one host also post what all others may fetch, and expose their
// buffers to each other. What a rank posts is a copy (at most kMostPostedBytes); it is
// fetched as Buffer::posted, and a fetch means the peer's post of the same number as this
// rank's last one, so that every rank makes equally many. What a rank exposes is its input
// and output themselves: until the plan ends others may read both and write the output,
// and no two operations between the same two fences touch the same chunk when one of them
// writes it. An expose and a fence wait until all ranks have come to theirs; both count as
// posts of nothing. A plan that exposes ends with a fence.
//
// Order: operands of a reduction are combined in the order the plan states, never in
// order of arrival. Rounds never hold two sends to one peer, or two receives from one.
//
// Pure values: no clock, no communication; the same value is printed, checked
// (check.h), simulated (simulate.h) and executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/partition.h>

namespace trireme::plan {

enum class Collective : std::uint8_t {
  all_reduce = 0,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  barrier,
  gather,
  scatter,
  all_to_all,
};
inline constexpr int kCollectiveCount = 9;
// "all_reduce", ...
std::string_view to_string(Collective collective);
// True when contributions are combined (all_reduce, reduce, reduce_scatter).
bool reduces(Collective collective);
// True when one rank is the root (reduce, broadcast, gather, scatter).
bool is_rooted(Collective collective);

// True when each rank's input is a part of the result (all_gather, gather), or each
// rank's output a part of it (reduce_scatter, scatter).
bool gathers(Collective collective);
bool scatters(Collective collective);

// A collective call, as far as a plan depends on it: equal on all ranks, except for the
// counts of an all_to_all of uneven parts, of which a rank knows its own.
struct Request {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  int root = 0;            // Where is_rooted(); 0 otherwise.
  std::int64_t count = 0;  // Elements per rank, as in the Communicator's call.
  std::int64_t element_bytes = 1;
  bool wide = false;  // Partial results are f32 though elements are narrower.
  // Ranks on each host, when each has equally many with consecutive numbers; 0: not so.
  int ranks_per_host = 0;
  bool ordered = false;        // Operands are combined in order of rank (the operation does not commute).
  bool shared_memory = false;  // All ranks share the memory of one host: they may post and fetch.
  bool windows = false;        // Their buffers lie where all of them can read and write.
  // Uneven parts, of all_gather, reduce_scatter, gather, scatter and all_to_all: part r
  // has counts[r] elements, and `count` is their mean. Empty: even parts.
  // Of an all_to_all: what this rank sends to rank r, and what it receives from there.
  std::vector<std::int64_t> counts = {};
  std::vector<std::int64_t> receive_counts = {};
  bool uneven() const { return !counts.empty(); }
};
// Elements of the input and the output of one rank. What only the root has (the input of
// a scatter, the output of a gather) is told for all ranks alike.
std::int64_t input_elements(const Request& request, int rank);
std::int64_t output_elements(const Request& request, int rank);

// base + stride * iteration, modulo `modulo` when that is not 0 (result >= 0).
struct Affine {
  std::int32_t base = 0;
  std::int32_t stride = 0;
  std::int32_t modulo = 0;
  std::int32_t at(std::int32_t iteration) const {
    const std::int64_t value = base + std::int64_t{stride} * iteration;
    if (modulo == 0) return static_cast<std::int32_t>(value);
    const std::int64_t rest = value % modulo;
    return static_cast<std::int32_t>(rest < 0 ? rest + modulo : rest);
  }
  bool operator==(const Affine&) const = default;
};
// The constant function.
inline Affine fixed(std::int32_t value) {
  return {value, 0, 0};
}

// posted: what a peer posted; its chunks are those of the post, numbered from 0.
enum class Buffer : std::uint8_t { none = 0, input, output, scratch, posted };

// The most that a rank posts at once.
inline constexpr std::int64_t kMostPostedBytes = 16 * 1024;

struct Reference {
  Buffer buffer = Buffer::none;
  Affine chunk;  // Which chunk of the buffer's layout; for scratch, which slot.
  bool operator==(const Reference&) const = default;
};

enum class OpKind : std::uint8_t {
  send = 0,        // a -> peer
  receive,         // peer -> target
  receive_reduce,  // target = incoming (+) a, or a (+) incoming
  copy,            // target = a
  reduce,          // target = a (+) b
  post,            // All others may fetch a; none: nothing, but they may know.
  fetch,           // target = a of `peer`: what it posted, or its exposed input or output
  fetch_reduce,    // target = a of rank 0 (+) a of rank 1 (+) ... of all ranks
  expose,          // Input and output are the others' to use; waits for all to say so.
  fence,           // Waits until all ranks have come here.
};

// In whose output the target lies, of copy, fetch and fetch_reduce.
enum class Placement : std::uint8_t { here = 0, there, everywhere };  // there: at `root`.

// How a message represents its elements.
enum class Wire : std::uint8_t { element = 0, accumulator };

struct Op {
  OpKind kind = OpKind::copy;
  Wire wire = Wire::element;    // Of send, receive and receive_reduce.
  bool incoming_first = false;  // receive_reduce: the incoming operand is the left one.
  bool finish = false;          // The target's value is complete: scale an average, round once.
  Placement placement = Placement::here;
  std::int32_t span = 1;  // How many consecutive chunks each reference and the length cover.
  std::int32_t root = 0;  // Of Placement::there.
  Affine peer;
  Affine length;  // Index into Program::partition: how many elements.
  Reference target;
  Reference a;
  Reference b;
  bool operator==(const Op&) const = default;
};

// `elements` cut into `chunks` parts: balanced ones, or those between given bounds.
struct Layout {
  std::int64_t elements = 0;
  std::int32_t chunks = 1;
  std::vector<std::int64_t> bounds = {};  // chunks + 1 ascending numbers from 0; empty: balanced.
  Range part(std::int32_t chunk) const {
    if (bounds.empty()) return balanced_part(elements, chunk, chunks);
    return {bounds[static_cast<std::size_t>(chunk)], bounds[static_cast<std::size_t>(chunk) + 1]};
  }
  bool operator==(const Layout&) const = default;
};
// One chunk per entry of `counts`.
Layout uneven_layout(const std::vector<std::int64_t>& counts);

struct Round {
  std::uint32_t first_op = 0;
  std::uint32_t op_count = 0;
};

struct Loop {
  std::int32_t iterations = 1;
  std::uint32_t first_round = 0;
  std::uint32_t round_count = 0;
};

struct Program {
  std::int32_t rank = 0;
  Layout input;
  Layout output;
  Layout partition;  // Gives operations their lengths.
  std::int32_t scratch_slots = 0;
  std::int64_t slot_elements = 0;  // Capacity of each scratch slot.
  // The slots lie as the parts of `partition` do, one for one, so that spans of them are
  // contiguous; otherwise a slot begins every slot_elements.
  bool scratch_as_partition = false;
  // Elements of `span` parts from part `first` on, and where a scratch slot begins.
  std::int64_t elements(std::int32_t first, std::int32_t span) const {
    return partition.part(first + span - 1).end - partition.part(first).begin;
  }
  std::int64_t slot_begin(std::int32_t slot) const {
    return scratch_as_partition ? partition.part(slot).begin : slot * slot_elements;
  }
  std::vector<Loop> loops;
  std::vector<Round> rounds;
  std::vector<Op> ops;
};

// All ranks' programs for one request.
struct Plan {
  Request request;
  std::vector<Program> programs;
};

// Whether an operation has a peer: sends, receives and fetches from one rank.
bool has_peer(const Op& op);
// Whether it moves nothing but waits for all ranks.
bool synchronizes(const Op& op);
// The most operations any round of `program` has.
std::size_t widest_round(const Program& program);

// Several lines, for people: loops, rounds and operations of one rank.
std::string print_program(const Program& program);

}  // namespace trireme::plan
