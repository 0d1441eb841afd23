#include "collectives/plan/api/check.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "collectives/plan/api/cursor.h"
#include "collectives/plan/check_shape.h"
#include "collectives/plan/check_shared.h"
#include "collectives/plan/machine.h"

namespace trireme::plan {
namespace {

bool is_send(const Op& op) {
  return op.kind == OpKind::send;
}
bool is_receive(const Op& op) {
  return op.kind == OpKind::receive || op.kind == OpKind::receive_reduce;
}

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
  Status compute(Machine& machine, const Op& op);
  Status transfer(Machine& receiver, const Op& op, Machine& sender, const Op& send);
  Status deadlock() const;
  Status check_results() const;
  const Plan& plan_;
  bool in_place_;
  std::vector<Machine> machines_;
  SharedMemoryRules shared_{plan_.request, machines_};
  std::map<std::pair<int, int>, bool> edge_used_;
};

Status Checker::enter_round(Machine& machine) {
  if (machine.cursor.at_end()) return {};
  machine.done.assign(machine.cursor.ops().size(), false);
  machine.knowledge_at_round = machine.knowledge;
  for (const Op& op : machine.cursor.ops()) {
    Status status = check_op(machine, op);
    if (!status.is_ok()) return status.with_context(machine.where());
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
  if (has_peer(op)) {
    const std::int32_t peer = op.peer.at(iteration);
    if (peer < 0 || peer >= plan_.request.ranks || peer == program.rank) {
      return invalid_argument(fmt::format("peer {} is not another rank of {}", peer, plan_.request.ranks));
    }
  }
  const bool needs_target = op.kind != OpKind::send && op.kind != OpKind::post && !synchronizes(op);
  const bool needs_a = op.kind != OpKind::receive && !synchronizes(op);
  const bool needs_b = op.kind == OpKind::reduce;
  const bool may_lack_a = op.kind == OpKind::post;
  const std::pair<const Reference*, bool> uses[] = {{&op.target, needs_target}, {&op.a, needs_a}, {&op.b, needs_b}};
  for (const auto& [reference, needed] : uses) {
    const bool given = reference->buffer != Buffer::none;
    if (given != needed && !(reference == &op.a && may_lack_a)) {
      return invalid_argument("an operand is missing or superfluous");
    }
    // What others have is looked at when it is there.
    const bool elsewhere =
        (reference == &op.a && fetches(op)) || (reference == &op.target && op.placement != Placement::here);
    if (given && !elsewhere) TRIREME_RETURN_IF_ERROR(check_reference(machine, op, *reference));
  }
  if (uses_shared_memory(op)) TRIREME_RETURN_IF_ERROR(check_shared_op(plan_.request, program, op, iteration));
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
    const std::int64_t elements = machine.part_size(op, i);
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
    const bool writes = ops[i].target.buffer != Buffer::none && ops[i].placement == Placement::here &&
                        !is_overlaid_copy(machine, ops[i]);
    for (std::int32_t k = 0; writes && k < ops[i].span; ++k) {
      const std::size_t cell = machine.memory.cell(ops[i].target, iteration, k).value();
      if (!writer.emplace(cell, i).second)
        return invalid_argument(machine.where() + ": two operations write one chunk");
    }
    if (!is_send(ops[i]) && !is_receive(ops[i])) continue;
    if (!channels.emplace(std::pair(ops[i].peer.at(iteration), is_send(ops[i])), i).second) {
      return invalid_argument(machine.where() + ": two messages of one direction between two ranks in one round");
    }
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (fetches(ops[i])) continue;  // From elsewhere.
    for (const Reference* reference : {&ops[i].a, &ops[i].b}) {
      for (std::int32_t k = 0; reference->buffer != Buffer::none && k < ops[i].span; ++k) {
        auto found = writer.find(machine.memory.cell(*reference, iteration, k).value());
        // An operation may overwrite its own operand element by element, chunk on chunk.
        const bool own = found != writer.end() && found->second == i &&
                         found->first == machine.memory.cell(ops[i].target, iteration, k).value();
        if (found != writer.end() && !own) {
          return invalid_argument(machine.where() + ": a chunk is overwritten while another operation reads it");
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
      if (!status.is_ok()) return status.with_context(machine.where());
      sender.done[i] = machine.done[index] = true;
      return true;
    }
    return false;
  }
  if (uses_shared_memory(op)) {
    auto did = shared_.try_op(machine, op);
    if (!did.is_ok()) return did.status().with_context(machine.where());
    machine.done[index] = did.value();
    return did;
  }
  Status status = compute(machine, op);
  if (!status.is_ok()) return status.with_context(machine.where());
  machine.done[index] = true;
  return true;
}

// A copy or a reduction within the rank.
Status Checker::compute(Machine& machine, const Op& op) {
  const std::int32_t iteration = machine.cursor.iteration();
  TRIREME_RETURN_IF_ERROR(shared_.note_local(machine, op));
  for (std::int32_t i = 0; i < op.span; ++i) {
    auto value = read_value(machine, op.a, iteration, i);
    if (value.is_ok() && op.kind == OpKind::reduce) {
      auto right = read_value(machine, op.b, iteration, i);
      value = right.is_ok() ? combine_values(plan_.request, value.value(), right.value()) : right;
    }
    if (!value.is_ok()) return value.status();
    TRIREME_RETURN_IF_ERROR(store_value(plan_.request, machine, op, iteration, i, std::move(value).value()));
  }
  return {};
}

Status Checker::transfer(Machine& receiver, const Op& op, Machine& sender, const Op& send) {
  if (op.wire != send.wire) return invalid_argument("sender and receiver disagree about the representation");
  if (op.span != send.span) {
    return invalid_argument(
        fmt::format("receives {} chunks, but rank {} sends {}", op.span, sender.program->rank, send.span));
  }
  std::int64_t elements = 0;
  for (std::int32_t i = 0; i < op.span; ++i) {
    elements += receiver.part_size(op, i);
    if (receiver.part_size(op, i) == sender.part_size(send, i)) continue;
    return invalid_argument(fmt::format("receives {} elements, but rank {} sends {}", receiver.part_size(op, i),
                                        sender.program->rank, sender.part_size(send, i)));
  }
  // An empty message is seen by its signature alone, which an edge carries once.
  bool& used = edge_used_[{sender.program->rank, receiver.program->rank}];
  if (!used || elements > 0) receiver.knowledge.add(sender.knowledge_at_round);
  used = true;
  if (plan_.request.collective == Collective::barrier) return {};
  for (std::int32_t i = 0; i < op.span; ++i) {
    TRIREME_ASSIGN_OR_RETURN(Value value, read_value(sender, send.a, sender.cursor.iteration(), i));
    if (op.kind == OpKind::receive_reduce) {
      TRIREME_ASSIGN_OR_RETURN(const Value own, read_value(receiver, op.a, receiver.cursor.iteration(), i));
      auto combined =
          op.incoming_first ? combine_values(plan_.request, value, own) : combine_values(plan_.request, own, value);
      if (!combined.is_ok()) return combined.status();
      value = std::move(combined).value();
    }
    TRIREME_RETURN_IF_ERROR(store_value(plan_.request, receiver, op, receiver.cursor.iteration(), i, std::move(value)));
  }
  return {};
}

Status Checker::deadlock() const {
  std::string text = "deadlock:";
  for (const Machine& machine : machines_) {
    if (machine.cursor.at_end()) continue;
    text += " [" + machine.where() + ":";
    const auto ops = machine.cursor.ops();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (machine.done[i]) continue;
      text += has_peer(ops[i]) ? fmt::format(" {} {}", is_send(ops[i]) ? "sends to" : "waits for",
                                             ops[i].peer.at(machine.cursor.iteration()))
                               : " waits for all";
    }
    text += "]";
    if (text.size() > 1000) break;
  }
  return invalid_argument(text);
}

Status Checker::check_results() const {
  TRIREME_RETURN_IF_ERROR(shared_.check_ends());
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
