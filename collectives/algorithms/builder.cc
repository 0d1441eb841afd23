#include "collectives/algorithms/builder.h"

namespace trireme::plan {

Builder::Builder(const Request& request, int rank, std::int32_t chunks) {
  program_.rank = rank;
  program_.input = {input_elements(request), chunks};
  program_.output = {output_elements(request), chunks};
  if (request.collective == Collective::all_gather) program_.input.chunks = 1;
  if (request.collective == Collective::reduce_scatter) program_.output.chunks = 1;
  program_.partition = request.collective == Collective::all_gather ? program_.output : program_.input;
}

void Builder::scratch(std::int32_t slots) {
  program_.scratch_slots = slots;
  program_.slot_elements = program_.partition.part(0).size();  // Larger parts come first.
}

Builder& Builder::loop(std::int32_t iterations) {
  program_.loops.push_back({iterations, static_cast<std::uint32_t>(program_.rounds.size()), 0});
  return round();
}

Builder& Builder::round() {
  program_.rounds.push_back({static_cast<std::uint32_t>(program_.ops.size()), 0});
  ++program_.loops.back().round_count;
  return *this;
}

Builder& Builder::add(const Op& op) {
  program_.ops.push_back(op);
  ++program_.rounds.back().op_count;
  return *this;
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

Makers::Maker Makers::pick(const Request& request) const {
  switch (request.collective) {
    case Collective::all_reduce:
      return all_reduce;
    case Collective::reduce_scatter:
      return reduce_scatter;
    case Collective::all_gather:
      return all_gather;
    default:
      return nullptr;
  }
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
