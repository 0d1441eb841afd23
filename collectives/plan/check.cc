#include "collectives/plan/api/check.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "collectives/plan/api/cursor.h"
#include "collectives/plan/check_shape.h"
#include "collectives/plan/memory.h"

namespace trireme::plan {
namespace {

bool is_send(const Op& op) {
  return op.kind == OpKind::send;
}
bool is_receive(const Op& op) {
  return op.kind == OpKind::receive || op.kind == OpKind::receive_reduce;
}

// One rank in execution.
struct Machine {
  Machine(const Request& request, const Program& code, bool in_place)
      : program(&code), memory(request, code, in_place), cursor(code), knowledge(request.ranks) {
    knowledge.insert(code.rank);
  }
  const Program* program;
  Memory memory;
  Cursor cursor;
  std::vector<bool> done;      // Of the operations of the current round.
  RankSet knowledge;           // Ranks whose beginning is known to lie in the past.
  RankSet knowledge_at_round;  // As of the start of the round.
};

class Checker {
 public:
  Checker(const Plan& plan, bool in_place) : plan_(plan), in_place_(in_place) {}

  Status run() {
    TRIREME_RETURN_IF_ERROR(check_shape(plan_));
    for (const Program& program : plan_.programs) machines_.emplace_back(plan_.request, program, in_place_);
    for (Machine& machine : machines_) TRIREME_RETURN_IF_ERROR(enter_round(machine));
    TRIREME_RETURN_IF_ERROR(execute());
    for (Machine& machine : machines_) {
      if (!machine.cursor.at_end()) return deadlock();
    }
    return check_results();
  }

 private:
  Status enter_round(Machine& machine);
  Status check_op(const Machine& machine, const Op& op) const;
  Status check_reference(const Machine& machine, const Op& op, const Reference& reference) const;
  Status check_conflicts(const Machine& machine) const;
  bool is_overlaid_copy(const Machine& machine, const Op& op) const;
  Status execute();
  Result<bool> step(Machine& machine);
  Result<bool> try_op(Machine& machine, std::size_t index);
  Status transfer(Machine& receiver, const Op& op, Machine& sender, const Op& send);
  Status store(Machine& machine, const Op& op, std::int32_t i, Value value);
  Result<Value> read(const Machine& machine, const Reference& reference, std::int32_t i) const;
  Result<Value> combine(const Value& left, const Value& right) const;
  Status deadlock() const;
  Status check_results() const;
  std::string where(const Machine& machine) const {
    return fmt::format("rank {}, loop {}, iteration {}, round {}", machine.program->rank, machine.cursor.loop(),
                       machine.cursor.iteration(), machine.cursor.round());
  }
  // Elements of chunk `i` of the operation's span.
  static std::int64_t part_size(const Machine& machine, const Op& op, std::int32_t i) {
    return machine.program->partition.part(op.length.at(machine.cursor.iteration()) + i).size();
  }

  const Plan& plan_;
  bool in_place_;
  std::vector<Machine> machines_;
  std::map<std::pair<int, int>, bool> edge_used_;
};

Status Checker::enter_round(Machine& machine) {
  if (machine.cursor.at_end()) return {};
  machine.done.assign(machine.cursor.ops().size(), false);
  machine.knowledge_at_round = machine.knowledge;
  for (const Op& op : machine.cursor.ops()) {
    Status status = check_op(machine, op);
    if (!status.is_ok()) return status.with_context(where(machine));
  }
  return check_conflicts(machine);
}

// Bounds, lengths and representations of one operation.
Status Checker::check_op(const Machine& machine, const Op& op) const {
  const Program& program = *machine.program;
  const std::int32_t iteration = machine.cursor.iteration();
  const std::int32_t part = op.length.at(iteration);
  if (op.span < 1 || part < 0 || part + op.span > program.partition.chunks) {
    return invalid_argument(fmt::format("length of {} parts from {} on", op.span, part));
  }
  if (is_send(op) || is_receive(op)) {
    const std::int32_t peer = op.peer.at(iteration);
    if (peer < 0 || peer >= plan_.request.ranks || peer == program.rank) {
      return invalid_argument(fmt::format("peer {} is not another rank of {}", peer, plan_.request.ranks));
    }
  }
  const bool needs_target = op.kind != OpKind::send;
  const bool needs_a = op.kind != OpKind::receive;
  const bool needs_b = op.kind == OpKind::reduce;
  const std::pair<const Reference*, bool> uses[] = {{&op.target, needs_target}, {&op.a, needs_a}, {&op.b, needs_b}};
  for (const auto& [reference, needed] : uses) {
    if ((reference->buffer != Buffer::none) != needed) return invalid_argument("an operand is missing or superfluous");
    if (needed) TRIREME_RETURN_IF_ERROR(check_reference(machine, op, *reference));
  }
  if (needs_target && op.target.buffer == Buffer::input) return invalid_argument("writes the input");
  if (op.finish && op.target.buffer != Buffer::output) return invalid_argument("finishes elsewhere than in the output");
  if (is_send(op) && (op.wire == Wire::accumulator) != (op.a.buffer == Buffer::scratch)) {
    return invalid_argument("the wire's representation is not that of the buffer sent");
  }
  return {};
}

// Every chunk of the span exists and has room; those of a longer span lie without gaps.
Status Checker::check_reference(const Machine& machine, const Op& op, const Reference& reference) const {
  const std::int32_t iteration = machine.cursor.iteration();
  const bool output = reference.buffer == Buffer::output && plan_.request.collective != Collective::barrier;
  if (output && !machine.memory.has_output()) return invalid_argument("uses the output that only the root has");
  for (std::int32_t i = 0; i < op.span; ++i) {
    auto cell = machine.memory.cell(reference, iteration, i);
    if (!cell.is_ok()) return cell.status();
    const std::int64_t capacity = machine.memory.capacity(reference, iteration, i);
    const std::int64_t elements = part_size(machine, op, i);
    const bool exact = reference.buffer != Buffer::scratch || op.span > 1;
    if (exact ? capacity != elements : capacity < elements) {
      return invalid_argument(fmt::format("{} elements for a chunk of {}", elements, capacity));
    }
  }
  return {};
}

// Copying a chunk onto itself, as happens in place, writes nothing.
bool Checker::is_overlaid_copy(const Machine& machine, const Op& op) const {
  const std::int32_t iteration = machine.cursor.iteration();
  return op.kind == OpKind::copy && !op.finish &&
         machine.memory.cell(op.target, iteration).value() == machine.memory.cell(op.a, iteration).value();
}

// Within a round nothing may be written that another operation reads or writes, and a
// pair of ranks exchanges at most one message in each direction.
Status Checker::check_conflicts(const Machine& machine) const {
  const auto ops = machine.cursor.ops();
  const std::int32_t iteration = machine.cursor.iteration();
  std::map<std::size_t, std::size_t> writer;
  std::map<std::pair<int, bool>, std::size_t> channels;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool writes = ops[i].target.buffer != Buffer::none && !is_overlaid_copy(machine, ops[i]);
    for (std::int32_t k = 0; writes && k < ops[i].span; ++k) {
      const std::size_t cell = machine.memory.cell(ops[i].target, iteration, k).value();
      if (!writer.emplace(cell, i).second) return invalid_argument(where(machine) + ": two operations write one chunk");
    }
    if (!is_send(ops[i]) && !is_receive(ops[i])) continue;
    if (!channels.emplace(std::pair(ops[i].peer.at(iteration), is_send(ops[i])), i).second) {
      return invalid_argument(where(machine) + ": two messages of one direction between two ranks in one round");
    }
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const Reference* reference : {&ops[i].a, &ops[i].b}) {
      for (std::int32_t k = 0; reference->buffer != Buffer::none && k < ops[i].span; ++k) {
        auto found = writer.find(machine.memory.cell(*reference, iteration, k).value());
        // An operation may overwrite its own operand element by element, chunk on chunk.
        const bool own = found != writer.end() && found->second == i &&
                         found->first == machine.memory.cell(ops[i].target, iteration, k).value();
        if (found != writer.end() && !own) {
          return invalid_argument(where(machine) + ": a chunk is overwritten while another operation reads it");
        }
      }
    }
  }
  return {};
}

Status Checker::execute() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Machine& machine : machines_) {
      TRIREME_ASSIGN_OR_RETURN(const bool stepped, step(machine));
      moved |= stepped;
    }
  }
  return {};
}

Result<bool> Checker::step(Machine& machine) {
  if (machine.cursor.at_end()) return false;
  bool moved = false;
  bool all = true;
  for (std::size_t i = 0; i < machine.done.size(); ++i) {
    if (!machine.done[i]) {
      TRIREME_ASSIGN_OR_RETURN(const bool did, try_op(machine, i));
      moved |= did;
    }
    all = all && machine.done[i];
  }
  if (all) {
    machine.cursor.next();
    TRIREME_RETURN_IF_ERROR(enter_round(machine));
    moved = true;
  }
  return moved;
}

// Sends are completed by their receivers.
Result<bool> Checker::try_op(Machine& machine, std::size_t index) {
  const Op& op = machine.cursor.ops()[index];
  if (is_send(op)) return false;
  if (is_receive(op)) {
    Machine& sender = machines_[static_cast<std::size_t>(op.peer.at(machine.cursor.iteration()))];
    if (sender.cursor.at_end()) return false;
    const auto ops = sender.cursor.ops();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!is_send(ops[i]) || sender.done[i]) continue;
      if (ops[i].peer.at(sender.cursor.iteration()) != machine.program->rank) continue;
      Status status = transfer(machine, op, sender, ops[i]);
      if (!status.is_ok()) return status.with_context(where(machine));
      sender.done[i] = machine.done[index] = true;
      return true;
    }
    return false;
  }
  for (std::int32_t i = 0; i < op.span; ++i) {
    auto value = read(machine, op.a, i);
    if (value.is_ok() && op.kind == OpKind::reduce) {
      auto right = read(machine, op.b, i);
      value = right.is_ok() ? combine(value.value(), right.value()) : right;
    }
    Status status = value.is_ok() ? store(machine, op, i, std::move(value).value()) : value.status();
    if (!status.is_ok()) return status.with_context(where(machine));
  }
  machine.done[index] = true;
  return true;
}

Status Checker::transfer(Machine& receiver, const Op& op, Machine& sender, const Op& send) {
  if (op.wire != send.wire) return invalid_argument("sender and receiver disagree about the representation");
  if (op.span != send.span) {
    return invalid_argument(
        fmt::format("receives {} chunks, but rank {} sends {}", op.span, sender.program->rank, send.span));
  }
  std::int64_t elements = 0;
  for (std::int32_t i = 0; i < op.span; ++i) {
    elements += part_size(receiver, op, i);
    if (part_size(receiver, op, i) == part_size(sender, send, i)) continue;
    return invalid_argument(fmt::format("receives {} elements, but rank {} sends {}", part_size(receiver, op, i),
                                        sender.program->rank, part_size(sender, send, i)));
  }
  // An empty message is seen by its signature alone, which an edge carries once.
  bool& used = edge_used_[{sender.program->rank, receiver.program->rank}];
  if (!used || elements > 0) receiver.knowledge.add(sender.knowledge_at_round);
  used = true;
  if (plan_.request.collective == Collective::barrier) return {};
  for (std::int32_t i = 0; i < op.span; ++i) {
    TRIREME_ASSIGN_OR_RETURN(Value value, read(sender, send.a, i));
    if (op.kind == OpKind::receive_reduce) {
      TRIREME_ASSIGN_OR_RETURN(const Value own, read(receiver, op.a, i));
      auto combined = op.incoming_first ? combine(value, own) : combine(own, value);
      if (!combined.is_ok()) return combined.status();
      value = std::move(combined).value();
    }
    TRIREME_RETURN_IF_ERROR(store(receiver, op, i, std::move(value)));
  }
  return {};
}

Result<Value> Checker::read(const Machine& machine, const Reference& reference, std::int32_t i) const {
  const Value& value = machine.memory.value(machine.memory.cell(reference, machine.cursor.iteration(), i).value());
  if (!value.readable)
    return invalid_argument(fmt::format("rank {} reads a chunk before it is written", machine.program->rank));
  return value;
}

Result<Value> Checker::combine(const Value& left, const Value& right) const {
  if (left.chunk != right.chunk)
    return invalid_argument(fmt::format("combines chunks {} and {}", left.chunk, right.chunk));
  if (left.finished || right.finished) return invalid_argument("combines a finished value");
  if (left.contributions.intersects(right.contributions)) return invalid_argument("a contribution is counted twice");
  if (plan_.request.ordered && left.contributions.last() > right.contributions.first()) {
    return invalid_argument("combines a rank's contribution in front of a lower rank's");
  }
  Value value = left;
  value.contributions.add(right.contributions);
  value.expression = combined_expression(left.expression, right.expression);
  return value;
}

Status Checker::store(Machine& machine, const Op& op, std::int32_t i, Value value) {
  if (op.finish) {
    if (!reduces(plan_.request.collective)) return invalid_argument("finishes though nothing is reduced");
    if (value.finished) return invalid_argument("finishes twice");
    if (value.contributions != machine.memory.required(value.chunk)) {
      return invalid_argument(fmt::format("finishes with {} contributions", value.contributions.size()));
    }
    value.finished = true;
  }
  const bool partial = value.contributions.size() > 1 && !value.finished;
  if (plan_.request.wide && partial && op.target.buffer != Buffer::scratch) {
    return invalid_argument("rounds an unfinished partial result");
  }
  machine.memory.value(machine.memory.cell(op.target, machine.cursor.iteration(), i).value()) = std::move(value);
  return {};
}

Status Checker::deadlock() const {
  std::string text = "deadlock:";
  for (const Machine& machine : machines_) {
    if (machine.cursor.at_end()) continue;
    text += " [" + where(machine) + ":";
    const auto ops = machine.cursor.ops();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (machine.done[i]) continue;
      text +=
          fmt::format(" {} {}", is_send(ops[i]) ? "sends to" : "waits for", ops[i].peer.at(machine.cursor.iteration()));
    }
    text += "]";
    if (text.size() > 1000) break;
  }
  return invalid_argument(text);
}

Status Checker::check_results() const {
  std::map<std::int32_t, std::uint64_t> expressions;
  for (const Machine& machine : machines_) {
    TRIREME_RETURN_IF_ERROR(machine.memory.check_outputs());
    if (plan_.request.collective == Collective::barrier && machine.knowledge.size() != plan_.request.ranks) {
      return invalid_argument(fmt::format("rank {} passes the barrier knowing only of {} ranks", machine.program->rank,
                                          machine.knowledge.size()));
    }
    if (!machine.memory.has_output()) continue;
    for (std::int32_t i = 0; i < machine.program->output.chunks; ++i) {
      const std::uint64_t expression = machine.memory.value(machine.memory.output_cell(i)).expression;
      const auto [found, fresh] = expressions.emplace(machine.memory.output_domain_chunk(i), expression);
      if (!fresh && found->second != expression) {
        return invalid_argument(fmt::format("rank {} combines chunk {} in another order than the ranks before it",
                                            machine.program->rank, i));
      }
    }
  }
  return {};
}

}  // namespace

Status check_plan(const Plan& plan, bool in_place) {
  return Checker(plan, in_place).run();
}

}  // namespace trireme::plan
