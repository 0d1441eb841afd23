#include "collectives/plan/api/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "collectives/plan/api/cursor.h"

namespace trireme::plan {
namespace {

struct Machine {
  explicit Machine(const Program& code) : program(&code), cursor(code) {}
  const Program* program;
  Cursor cursor;
  bool sent = false;          // The sends of the current round are under way.
  double start = 0;           // Of the current round.
  double busy = 0;            // End of the round's sends.
  std::vector<double> posts;  // When each was made; an expose and a fence are posts, too.
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
};

class Simulator {
 public:
  Simulator(const Plan& plan, const Network& network) : plan_(plan), network_(network) {
    for (const Program& program : plan.programs) machines_.emplace_back(program);
  }

  Simulation run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Machine& machine : machines_) moved |= step(machine);
    }
    Simulation result;
    for (const Machine& machine : machines_) {
      result.seconds = std::max(result.seconds, machine.start);
      result.bytes_sent_max = std::max(result.bytes_sent_max, machine.bytes);
      result.messages_max = std::max(result.messages_max, machine.messages);
    }
    return result;
  }

 private:
  double bytes_of(const Machine& machine, const Op& op) const {
    const bool wide = plan_.request.wide && op.wire == Wire::accumulator;
    const std::int64_t elements = machine.program->elements(op.length.at(machine.cursor.iteration()), op.span);
    return static_cast<double>(elements * (wide ? 4 : plan_.request.element_bytes));
  }

  void start_sends(Machine& machine) {
    machine.busy = machine.start;
    for (const Op& op : machine.cursor.ops()) {
      if (op.kind != OpKind::send) continue;
      const double bytes = bytes_of(machine, op);
      machine.busy += bytes * network_.beta_s_per_byte;
      machine.bytes += static_cast<std::int64_t>(bytes);
      ++machine.messages;
      arrivals_[{machine.program->rank, op.peer.at(machine.cursor.iteration())}].push_back(machine.busy +
                                                                                           network_.alpha_s);
    }
    machine.sent = true;
  }

  // Posts are made when all have made the one before.
  void make_posts(Machine& machine) {
    for (const Op& op : machine.cursor.ops()) {
      if (op.kind != OpKind::post && !synchronizes(op)) continue;
      machine.posts.push_back(std::max(machine.start, machine.posts.empty() ? 0 : last_post(machine.posts.size())));
    }
  }
  // When the last rank made its post of that number.
  double last_post(std::size_t number) const {
    double last = 0;
    for (const Machine& machine : machines_) last = std::max(last, machine.posts[number - 1]);
    return last;
  }
  bool all_have_posted(std::size_t number) const {
    return std::all_of(machines_.begin(), machines_.end(),
                       [&](const Machine& machine) { return machine.posts.size() >= number; });
  }

  // Whether what the operation needs of others has been sent or posted.
  bool is_ready(const Machine& machine, const Op& op) {
    const std::int32_t iteration = machine.cursor.iteration();
    switch (op.kind) {
      case OpKind::receive:
      case OpKind::receive_reduce:
        return !arrivals_[{op.peer.at(iteration), machine.program->rank}].empty();
      case OpKind::fetch:
        return machines_[static_cast<std::size_t>(op.peer.at(iteration))].posts.size() >= machine.posts.size();
      case OpKind::fetch_reduce:
      case OpKind::expose:
      case OpKind::fence:
        return all_have_posted(machine.posts.size());
      default:
        return true;
    }
  }

  // Bytes cross between this rank and another one's memory, read there or written.
  double cross(Machine& reader, Machine& owner, double bytes) {
    owner.bytes += static_cast<std::int64_t>(bytes);
    ++owner.messages;
    return &reader == &owner ? 0 : bytes * network_.beta_s_per_byte;
  }

  // Takes what ranks `first` .. `end` have; `moving` is until when this rank moves bytes.
  // Returns the end.
  double fetch(Machine& machine, const Op& op, int first, int end, double& moving) {
    const double bytes = bytes_of(machine, op);
    const bool posted = op.a.buffer == Buffer::posted;
    for (int source = first; source < end; ++source) {
      Machine& owner = machines_[static_cast<std::size_t>(source)];
      if (&owner == &machine) continue;
      if (posted) moving = std::max(moving, owner.posts[machine.posts.size() - 1]);
      moving += cross(machine, owner, bytes);
    }
    for (int target = 0; op.placement == Placement::everywhere && target < plan_.request.ranks; ++target) {
      if (target != machine.program->rank) moving += cross(machine, machines_[static_cast<std::size_t>(target)], bytes);
    }
    if (op.placement == Placement::there && op.root != machine.program->rank) {
      moving += cross(machine, machines_[static_cast<std::size_t>(op.root)], bytes);
    }
    const double work = op.kind == OpKind::fetch_reduce ? (end - first - 1) * bytes * network_.gamma_s_per_byte : 0;
    return moving + (posted ? network_.alpha_s : 0) + work;
  }

  // Ends the round when everything it needs has been sent or posted.
  bool step(Machine& machine) {
    if (machine.cursor.at_end()) return false;
    if (!machine.sent && !all_have_posted(machine.posts.size())) return false;
    bool moved = !machine.sent;
    if (!machine.sent) {
      start_sends(machine);
      make_posts(machine);
    }
    const auto ops = machine.cursor.ops();
    for (const Op& op : ops) {
      if (!is_ready(machine, op)) return moved;
    }
    const std::int32_t iteration = machine.cursor.iteration();
    double end = machine.busy;
    double local = machine.start;
    double moving = machine.start;
    for (const Op& op : ops) {
      const double work = bytes_of(machine, op) * network_.gamma_s_per_byte;
      if (synchronizes(op)) {
        end = std::max(end, last_post(machine.posts.size()) + network_.alpha_s);
      } else if (op.kind == OpKind::fetch) {
        const int peer = op.peer.at(iteration);
        end = std::max(end, fetch(machine, op, peer, peer + 1, moving));
      } else if (op.kind == OpKind::fetch_reduce) {
        end = std::max(end, fetch(machine, op, 0, plan_.request.ranks, moving));
      } else if (op.placement != Placement::here) {
        end = std::max(end, fetch(machine, op, machine.program->rank, machine.program->rank + 1, moving));
      } else if (op.kind == OpKind::receive || op.kind == OpKind::receive_reduce) {
        auto& queue = arrivals_[{op.peer.at(machine.cursor.iteration()), machine.program->rank}];
        const double arrived = std::max(queue.front(), machine.start);
        queue.pop_front();
        end = std::max(end, arrived + (op.kind == OpKind::receive_reduce ? work : 0));
      } else if (op.kind != OpKind::send && op.kind != OpKind::post) {
        local += work;
      }
    }
    machine.start = std::max(end, local);
    machine.sent = false;
    machine.cursor.next();
    return true;
  }

  const Plan& plan_;
  const Network& network_;
  std::vector<Machine> machines_;
  std::map<std::pair<int, int>, std::deque<double>> arrivals_;
};

}  // namespace

Simulation simulate(const Plan& plan, const Network& network) {
  return Simulator(plan, network).run();
}

}  // namespace trireme::plan
