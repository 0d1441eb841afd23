#include "collectives/plan/api/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "collectives/plan/api/cursor.h"

namespace trireme::plan {
namespace {

struct Machine {
  explicit Machine(const Program& code) : program(&code), cursor(code) {}
  const Program* program;
  Cursor cursor;
  bool sent = false;  // The sends of the current round are under way.
  double start = 0;   // Of the current round.
  double busy = 0;    // End of the round's sends.
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

  // Ends the round when everything it receives has been sent.
  bool step(Machine& machine) {
    if (machine.cursor.at_end()) return false;
    bool moved = !machine.sent;
    if (!machine.sent) start_sends(machine);
    const auto ops = machine.cursor.ops();
    for (const Op& op : ops) {
      if (op.kind != OpKind::receive && op.kind != OpKind::receive_reduce) continue;
      if (arrivals_[{op.peer.at(machine.cursor.iteration()), machine.program->rank}].empty()) return moved;
    }
    double end = machine.busy;
    double local = machine.start;
    for (const Op& op : ops) {
      const double work = bytes_of(machine, op) * network_.gamma_s_per_byte;
      if (op.kind == OpKind::receive || op.kind == OpKind::receive_reduce) {
        auto& queue = arrivals_[{op.peer.at(machine.cursor.iteration()), machine.program->rank}];
        const double arrived = std::max(queue.front(), machine.start);
        queue.pop_front();
        end = std::max(end, arrived + (op.kind == OpKind::receive_reduce ? work : 0));
      } else if (op.kind != OpKind::send) {
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
