#include <fmt/core.h>

#include "collectives/plan/api/plan.h"

namespace trireme::plan {
namespace {

std::string print(const Affine& affine) {
  if (affine.stride == 0) return std::to_string(affine.at(0));
  std::string text = fmt::format("{}{}{}i", affine.base, affine.stride < 0 ? "-" : "+",
                                 std::abs(affine.stride) == 1 ? "" : std::to_string(std::abs(affine.stride)));
  return affine.modulo == 0 ? text : fmt::format("({} mod {})", text, affine.modulo);
}

std::string print(const Reference& reference, std::int32_t span = 1) {
  constexpr const char* kNames[] = {"none", "input", "output", "scratch", "posted"};
  const std::string more = span == 1 ? "" : fmt::format(", {} chunks", span);
  return fmt::format("{}[{}{}]", kNames[static_cast<int>(reference.buffer)], print(reference.chunk), more);
}

// The target, and in whose output it lies.
std::string print_target(const Op& op) {
  const std::string target = print(op.target, op.span);
  if (op.placement == Placement::everywhere) return target + " of all";
  return op.placement == Placement::there ? fmt::format("{} of {}", target, op.root) : target;
}

std::string print(const Op& op) {
  const char* wire = op.wire == Wire::accumulator ? " as accumulators" : "";
  const char* finish = op.finish ? ", finished" : "";
  const std::string peer = print(op.peer);
  switch (op.kind) {
    case OpKind::send:
      return fmt::format("send {} to {}{}", print(op.a, op.span), peer, wire);
    case OpKind::receive:
      return fmt::format("receive {} from {}{}{}", print(op.target, op.span), peer, wire, finish);
    case OpKind::receive_reduce:
      return op.incoming_first ? fmt::format("{} = (from {}{}) + {}{}", print(op.target, op.span), peer, wire,
                                             print(op.a, op.span), finish)
                               : fmt::format("{} = {} + (from {}{}){}", print(op.target, op.span), print(op.a, op.span),
                                             peer, wire, finish);
    case OpKind::copy:
      return fmt::format("{} = {}{}", print_target(op), print(op.a, op.span), finish);
    case OpKind::reduce:
      return fmt::format("{} = {} + {}{}", print(op.target, op.span), print(op.a, op.span), print(op.b, op.span),
                         finish);
    case OpKind::post:
      return op.a.buffer == Buffer::none ? "post nothing" : fmt::format("post {}", print(op.a, op.span));
    case OpKind::fetch:
      return fmt::format("{} = {} of {}", print_target(op), print(op.a, op.span), peer);
    case OpKind::fetch_reduce:
      return fmt::format("{} = sum of {} of all{}", print_target(op), print(op.a, op.span), finish);
    case OpKind::expose:
      return "expose input and output";
    case OpKind::fence:
      return "fence";
  }
  return "?";
}

}  // namespace

std::string print_program(const Program& program) {
  std::string text = fmt::format("rank {}: input {} x{}, output {} x{}, scratch {} x{}\n", program.rank,
                                 program.input.elements, program.input.chunks, program.output.elements,
                                 program.output.chunks, program.slot_elements, program.scratch_slots);
  for (const Loop& loop : program.loops) {
    text += fmt::format("  {} time{}:\n", loop.iterations, loop.iterations == 1 ? "" : "s, i = 0, 1, ...");
    for (std::uint32_t r = 0; r < loop.round_count; ++r) {
      const Round& round = program.rounds[loop.first_round + r];
      text += "    ";
      for (std::uint32_t o = 0; o < round.op_count; ++o) {
        text += (o == 0 ? "" : " | ") + print(program.ops[round.first_op + o]);
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace trireme::plan
