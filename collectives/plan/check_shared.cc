#include "collectives/plan/check_shared.h"

#include <algorithm>

#include <fmt/core.h>

namespace trireme::plan {

bool fetches(const Op& op) {
  return op.kind == OpKind::fetch || op.kind == OpKind::fetch_reduce;
}

bool uses_shared_memory(const Op& op) {
  return op.kind == OpKind::post || fetches(op) || synchronizes(op) || op.placement != Placement::here;
}

Status check_shared_op(const Request& request, const Program& program, const Op& op, std::int32_t iteration) {
  if (!request.shared_memory) return invalid_argument("uses shared memory, which the ranks do not have");
  if (op.finish && op.kind != OpKind::fetch_reduce) return invalid_argument("finishes what is not reduced");
  const bool placed = op.placement != Placement::here;
  if (placed && !fetches(op) && op.kind != OpKind::copy) return invalid_argument("places what has no target");
  if (placed && op.target.buffer != Buffer::output)
    return invalid_argument("writes another rank's memory but its output");
  const bool in_window = placed || (fetches(op) && op.a.buffer != Buffer::posted);
  if (in_window && !request.windows) return invalid_argument("uses others' buffers, which do not lie in windows");
  if (in_window && fetches(op) && op.a.buffer != Buffer::input && op.a.buffer != Buffer::output) {
    return invalid_argument("fetches what is neither posted nor exposed");
  }
  if (op.kind != OpKind::post || op.a.buffer == Buffer::none) return {};
  if (op.a.buffer == Buffer::scratch) return invalid_argument("posts scratch");
  const std::int64_t elements = program.elements(op.length.at(iteration), op.span);
  if (elements * request.element_bytes <= kMostPostedBytes) return {};
  return invalid_argument(
      fmt::format("posts {} bytes, more than {}", elements * request.element_bytes, kMostPostedBytes));
}

bool SharedMemoryRules::all_have_posted(std::size_t number) const {
  return std::all_of(machines_.begin(), machines_.end(),
                     [&](const Machine& machine) { return machine.posts.size() >= number; });
}

Result<bool> SharedMemoryRules::try_op(Machine& machine, const Op& op) {
  if (op.kind == OpKind::post) {
    // What it posted before the last time is overwritten: all must be past it.
    if (!all_have_posted(machine.posts.size())) return false;
    TRIREME_RETURN_IF_ERROR(post(machine, op));
    return true;
  }
  if (synchronizes(op)) return wait(machine, op);
  return fetch(machine, op);
}

Status SharedMemoryRules::post(Machine& machine, const Op& op) {
  Posting posting;
  posting.kind = op.kind;
  posting.knowledge = machine.knowledge_at_round;
  for (std::int32_t i = 0; op.a.buffer != Buffer::none && i < op.span; ++i) {
    TRIREME_ASSIGN_OR_RETURN(Value value, read_value(machine, op.a, machine.cursor.iteration(), i));
    posting.values.push_back(std::move(value));
    posting.elements.push_back(machine.part_size(op, i));
  }
  machine.posts.push_back(std::move(posting));
  return {};
}

Result<bool> SharedMemoryRules::wait(Machine& machine, const Op& op) {
  if (!machine.waits) {
    if (!all_have_posted(machine.posts.size())) return false;
    if (op.kind == OpKind::expose && machine.exposed) return invalid_argument("exposes twice");
    machine.posts.push_back({op.kind, {}, {}, machine.knowledge_at_round});
    machine.waits = true;
  }
  const std::size_t number = machine.posts.size();
  if (!all_have_posted(number)) return false;
  for (const Machine& other : machines_) {
    if (other.posts[number - 1].kind != op.kind) {
      return invalid_argument(fmt::format("rank {} does something else where this one waits", other.program->rank));
    }
    machine.knowledge.add(other.posts[number - 1].knowledge);
  }
  machine.waits = false;
  machine.exposed = machine.exposed || op.kind == OpKind::expose;
  machine.fences += op.kind == OpKind::fence ? 1 : 0;
  return true;
}

Result<bool> SharedMemoryRules::fetch(Machine& machine, const Op& op) {
  const bool all = op.kind == OpKind::fetch_reduce;
  const std::int32_t iteration = machine.cursor.iteration();
  const bool posted = fetches(op) && op.a.buffer == Buffer::posted;
  if (posted) {
    const std::size_t number = machine.posts.size();
    if (number == 0) return invalid_argument("fetches before it has posted");
    const auto has_posted = [&](const Machine& source) { return source.posts.size() >= number; };
    if (all ? !std::all_of(machines_.begin(), machines_.end(), has_posted)
            : !has_posted(machines_[static_cast<std::size_t>(op.peer.at(iteration))])) {
      return false;
    }
  } else if (!machine.exposed) {
    return invalid_argument("uses other ranks' memory before it is exposed");
  }
  const int first = all ? 0 : fetches(op) ? op.peer.at(iteration) : machine.program->rank;
  const int end = all ? request_.ranks : first + 1;
  for (std::int32_t i = 0; i < op.span; ++i) {
    TRIREME_ASSIGN_OR_RETURN(Value value, fetched(machine, op, first, i));
    for (int source = first + 1; source < end; ++source) {
      TRIREME_ASSIGN_OR_RETURN(const Value next, fetched(machine, op, source, i));
      TRIREME_ASSIGN_OR_RETURN(value, combine_values(request_, value, next));
    }
    TRIREME_RETURN_IF_ERROR(store(machine, op, i, value));
  }
  return true;
}

// Chunk `i` of the operand as rank `source` has it.
Result<Value> SharedMemoryRules::fetched(const Machine& machine, const Op& op, int source, std::int32_t i) {
  const std::int32_t iteration = machine.cursor.iteration();
  const Machine& owner = machines_[static_cast<std::size_t>(source)];
  if (op.a.buffer != Buffer::posted) {
    TRIREME_ASSIGN_OR_RETURN(const std::size_t cell, owner.memory.cell(op.a, iteration, i));
    if (owner.memory.capacity(op.a, iteration, i) != machine.part_size(op, i)) {
      return invalid_argument(fmt::format("rank {} has another number of elements there", source));
    }
    TRIREME_RETURN_IF_ERROR(touch(machine, owner, op, cell, false));
    return read_value(owner, op.a, iteration, i);
  }
  const Posting& posting = owner.posts[machine.posts.size() - 1];
  const std::int64_t chunk = std::int64_t{op.a.chunk.at(iteration)} + i;
  if (chunk < 0 || chunk >= static_cast<std::int64_t>(posting.values.size())) {
    return invalid_argument(
        fmt::format("rank {} posts {} chunks, not number {}", source, posting.values.size(), chunk));
  }
  const auto at = static_cast<std::size_t>(chunk);
  if (posting.elements[at] != machine.part_size(op, i)) {
    return invalid_argument(fmt::format("rank {} posts {} elements", source, posting.elements[at]));
  }
  return posting.values[at];
}

Status SharedMemoryRules::store(Machine& machine, const Op& op, std::int32_t i, const Value& value) {
  const std::int32_t iteration = machine.cursor.iteration();
  const int first = op.placement == Placement::everywhere ? 0
                    : op.placement == Placement::there    ? op.root
                                                          : machine.program->rank;
  const int end = op.placement == Placement::everywhere ? request_.ranks : first + 1;
  if (first < 0 || end > request_.ranks) return invalid_argument(fmt::format("there is no rank {}", first));
  for (int target = first; target < end; ++target) {
    Machine& owner = machines_[static_cast<std::size_t>(target)];
    if (!owner.memory.has_output()) return invalid_argument(fmt::format("rank {} has no output", target));
    TRIREME_ASSIGN_OR_RETURN(const std::size_t cell, owner.memory.cell(op.target, iteration, i));
    if (op.target.buffer == Buffer::output &&
        owner.memory.capacity(op.target, iteration, i) != machine.part_size(op, i)) {
      return invalid_argument(fmt::format("rank {} has no room for that many elements there", target));
    }
    if (machine.exposed) TRIREME_RETURN_IF_ERROR(touch(machine, owner, op, cell, true));
    TRIREME_RETURN_IF_ERROR(store_value(request_, owner, op, iteration, i, value));
  }
  return {};
}

Status SharedMemoryRules::note_local(const Machine& machine, const Op& op) {
  if (!machine.exposed) return {};
  for (std::int32_t i = 0; i < op.span; ++i) {
    for (const Reference* reference : {&op.a, &op.b}) {
      if (reference->buffer == Buffer::none) continue;
      TRIREME_ASSIGN_OR_RETURN(const std::size_t cell, machine.memory.cell(*reference, machine.cursor.iteration(), i));
      TRIREME_RETURN_IF_ERROR(touch(machine, machine, op, cell, false));
    }
    TRIREME_ASSIGN_OR_RETURN(const std::size_t cell, machine.memory.cell(op.target, machine.cursor.iteration(), i));
    TRIREME_RETURN_IF_ERROR(touch(machine, machine, op, cell, true));
  }
  return {};
}

Status SharedMemoryRules::touch(const Machine& machine, const Machine& owner, const Op& op, std::size_t cell,
                                bool writes) {
  if (&machine != &owner) last_remote_ = std::max(last_remote_, machine.fences);
  // An operation that runs again in the next iteration is another one.
  const std::pair self(machine.program->rank,
                       static_cast<std::size_t>(&op - machine.program->ops.data()) +
                           machine.program->ops.size() * static_cast<std::size_t>(machine.cursor.iteration()));
  Touched& place = touched_[{machine.fences, owner.program->rank, cell}];
  (writes ? place.writers : place.readers).insert(self);
  const auto only_self = [&](const auto& others) {
    return others.empty() || (others.size() == 1 && others.contains(self));
  };
  if (place.writers.empty() || (only_self(place.writers) && only_self(place.readers))) return {};
  return invalid_argument(
      fmt::format("a chunk of rank {} is written while another operation uses it", owner.program->rank));
}

Status SharedMemoryRules::check_ends() const {
  for (const Machine& machine : machines_) {
    if (machine.fences > last_remote_) continue;
    return invalid_argument(fmt::format("rank {} ends while others may use its memory", machine.program->rank));
  }
  return {};
}

}  // namespace trireme::plan
