#include "collectives/algorithms/builder.h"

#include <algorithm>

namespace trireme::plan {

Builder::Builder(const Request& request, int rank, std::int32_t chunks) {
  program_.rank = rank;
  program_.input = {input_elements(request, rank), chunks};
  program_.output = {output_elements(request, rank), chunks};
  if (request.uneven()) {
    const Layout parts = uneven_layout(request.counts);
    (gathers(request.collective) ? program_.output : program_.input) = parts;
    if (request.collective == Collective::all_to_all) program_.output = uneven_layout(request.receive_counts);
  }
  if (gathers(request.collective)) program_.input.chunks = 1;
  if (scatters(request.collective)) program_.output.chunks = 1;
  program_.partition = gathers(request.collective) ? program_.output : program_.input;
  if (request.uneven() && request.collective == Collective::all_to_all) {
    std::vector<std::int64_t> lengths = request.counts;
    lengths.insert(lengths.end(), request.receive_counts.begin(), request.receive_counts.end());
    program_.partition = uneven_layout(lengths);
  }
}

void Builder::scratch(std::int32_t slots) {
  program_.scratch_slots = slots;
  program_.slot_elements = program_.partition.part(0).size();  // Larger parts come first.
  if (program_.partition.bounds.empty()) return;
  for (std::int32_t part = 1; part < program_.partition.chunks; ++part) {
    program_.slot_elements = std::max(program_.slot_elements, program_.partition.part(part).size());
  }
}

void Builder::scratch_as_partition() {
  scratch(program_.partition.chunks);
  program_.scratch_as_partition = true;
}

Builder& Builder::loop(std::int32_t iterations) {
  program_.loops.push_back({iterations, static_cast<std::uint32_t>(program_.rounds.size()), 0});
  return round();
}

// A round without operations is taken again.
Builder& Builder::round() {
  if (program_.loops.back().round_count > 0 && program_.rounds.back().op_count == 0) return *this;
  program_.rounds.push_back({static_cast<std::uint32_t>(program_.ops.size()), 0});
  ++program_.loops.back().round_count;
  return *this;
}

Builder& Builder::add(const Op& op) {
  program_.ops.push_back(op);
  ++program_.rounds.back().op_count;
  return *this;
}

std::int32_t received_part(const Request& request, int source) {
  return request.uneven() ? request.ranks + source : source;
}

Op spanning(std::int32_t chunks, Op op) {
  op.span = chunks;
  return op;
}

Reference input(Affine chunk) {
  return {Buffer::input, chunk};
}
Reference output(Affine chunk) {
  return {Buffer::output, chunk};
}
Reference scratch(Affine slot) {
  return {Buffer::scratch, slot};
}

Reference posted(Affine chunk) {
  return {Buffer::posted, chunk};
}

Op send(Reference source, Affine peer, Affine length) {
  Op op;
  op.kind = OpKind::send;
  op.wire = source.buffer == Buffer::scratch ? Wire::accumulator : Wire::element;
  op.peer = peer;
  op.length = length;
  op.a = source;
  return op;
}

Op receive(Reference target, Affine peer, Affine length, Wire wire) {
  Op op;
  op.kind = OpKind::receive;
  op.wire = wire;
  op.peer = peer;
  op.length = length;
  op.target = target;
  return op;
}

Op copy(Reference target, Reference source, Affine length, bool finish) {
  Op op;
  op.kind = OpKind::copy;
  op.finish = finish;
  op.length = length;
  op.target = target;
  op.a = source;
  return op;
}

Op reduce(Reference target, Reference left, Reference right, Affine length, bool finish) {
  Op op = copy(target, left, length, finish);
  op.kind = OpKind::reduce;
  op.b = right;
  return op;
}

Op receive_after(Reference target, Reference own, Affine peer, Affine length, Wire wire, bool finish) {
  Op op = receive(target, peer, length, wire);
  op.kind = OpKind::receive_reduce;
  op.finish = finish;
  op.a = own;
  return op;
}

Op receive_before(Reference target, Reference own, Affine peer, Affine length, Wire wire, bool finish) {
  Op op = receive_after(target, own, peer, length, wire, finish);
  op.incoming_first = true;
  return op;
}

Op post(Reference source, Affine length) {
  Op op;
  op.kind = OpKind::post;
  op.length = length;
  op.a = source;
  return op;
}

Op post_nothing() {
  return post({}, fixed(0));
}

Op fetch(Reference target, Reference source, Affine peer, Affine length) {
  Op op = copy(target, source, length);
  op.kind = OpKind::fetch;
  op.peer = peer;
  return op;
}

Op fetch_reduce(Reference target, Reference source, Affine length) {
  Op op = copy(target, source, length, true);
  op.kind = OpKind::fetch_reduce;
  return op;
}

Op expose() {
  Op op;
  op.kind = OpKind::expose;
  return op;
}

Op fence() {
  Op op;
  op.kind = OpKind::fence;
  return op;
}

Op placed_at(int root, Op op) {
  op.placement = Placement::there;
  op.root = root;
  return op;
}

Op placed_everywhere(Op op) {
  op.placement = Placement::everywhere;
  return op;
}

Makers::Maker Makers::pick(const Request& request) const {
  switch (request.collective) {
    case Collective::all_reduce:
      return all_reduce;
    case Collective::reduce:
      return reduce;
    case Collective::broadcast:
      return broadcast;
    case Collective::all_gather:
      return all_gather;
    case Collective::reduce_scatter:
      return reduce_scatter;
    case Collective::barrier:
      return barrier;
    case Collective::gather:
      return gather;
    case Collective::scatter:
      return scatter;
    case Collective::all_to_all:
      return all_to_all;
  }
  return nullptr;
}

double element_bytes(const Request& request, double elements) {
  return elements * static_cast<double>(request.element_bytes);
}

double accumulator_bytes(const Request& request, double elements) {
  return elements * (request.wide ? 4.0 : static_cast<double>(request.element_bytes));
}

double largest_part(std::int64_t elements, std::int32_t parts) {
  return static_cast<double>(balanced_part(elements, 0, parts).size());
}

}  // namespace trireme::plan
