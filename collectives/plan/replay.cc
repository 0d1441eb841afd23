#include "collectives/plan/api/replay.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "collectives/plan/api/cursor.h"
#include "collectives/plan/event_queue.h"
#include "collectives/plan/symmetry.h"

namespace trireme::plan {
namespace {

// Messages that came before their receive, from one sender.
struct Inbox {
  int source = 0;
  std::vector<double> arrivals;
  std::size_t taken = 0;
};

struct Wait {
  int source = 0;
  double work_s = 0;
};

// Bytes that a rank fetches of what another one posts or has exposed.
struct Pull {
  std::size_t reader = 0;  // The machine that fetches.
  int source = 0;          // The rank it fetches from.
  std::size_t number = 0;  // Of the post.
  double bytes = 0;
};

struct Machine {
  Cursor cursor;
  double end = 0;  // Of the current round, as far as known.
  double processor_free = 0;
  double processor_busy = 0;
  int pending = 0;  // Sends on their way out and receives not yet come.
  std::vector<Wait> waits;
  std::vector<Inbox> inboxes;
  std::size_t posts = 0;    // Made so far; an expose and a fence are posts, too.
  std::vector<Pull> pulls;  // That wait for one of them.
};

struct Message {
  Path path;
  double bytes = 0;
  double finish = 0;    // When the last byte has passed the hop before.
  int sender = 0;       // The machine that sends.
  int receiver = 0;     // The machine that receives, and
  int source = 0;       // the rank it knows the sender as.
  bool pulled = false;  // The sender has no part in it.
  bool placed = false;  // The receiver has no part in it.
};

enum class EventKind : std::uint8_t { round, hop, delivery };
struct Event {
  std::uint32_t subject;
  EventKind kind;
  std::uint8_t hop;
};

class Replayer {
 public:
  Replayer(const Request& request, std::vector<Program> programs, const NetworkModel& network)
      : request_(request),
        network_(network),
        programs_(std::move(programs)),
        period_(static_cast<int>(programs_.size())),
        symmetric_(period_ < network.ranks()),
        machines_(programs_.size()),
        free_(network.resource_count()),
        busy_(network.resource_count()),
        per_byte_(network.resource_count()) {
    for (std::size_t i = 0; i < programs_.size(); ++i) machines_[i].cursor = Cursor(programs_[i]);
    for (std::size_t i = 0; i < per_byte_.size(); ++i) {
      per_byte_[i] = network.seconds_per_byte(static_cast<std::uint32_t>(i));
    }
  }

  std::int64_t count_rounds() const {
    std::int64_t rounds = 0;
    for (const Program& program : programs_) {
      for (const Loop& loop : program.loops) rounds += std::int64_t{std::max(loop.iterations, 0)} * loop.round_count;
    }
    return rounds;
  }

  Result<Replay> run() {
    for (std::size_t i = 0; i < machines_.size(); ++i) push(0, EventKind::round, static_cast<std::uint32_t>(i));
    while (!events_.empty()) {
      const Event event = events_.pop();
      const double now = events_.now();
      if (event.kind == EventKind::round) begin_round(event.subject, now);
      if (event.kind == EventKind::hop) pass_hop(event.subject, event.hop, now);
      if (event.kind == EventKind::delivery) deliver(event.subject, now);
    }
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      if (machines_[i].cursor.at_end()) continue;
      return invalid_argument(fmt::format("the plan does not end: rank {} waits for rank {}", i,
                                          machines_[i].waits.empty() ? -1 : machines_[i].waits.front().source));
    }
    return result();
  }

 private:
  void push(double time, EventKind kind, std::uint32_t subject, std::uint8_t hop = 0) {
    events_.push(time, {subject, kind, hop});
  }

  double bytes_of(std::size_t machine, const Op& op) const {
    const bool wide = request_.wide && op.wire == Wire::accumulator;
    const Program& program = programs_[machine];
    const std::int64_t elements = symmetric_
                                      ? program.partition.part(0).size() * op.span
                                      : program.elements(op.length.at(machines_[machine].cursor.iteration()), op.span);
    return static_cast<double>(elements * (wide ? 4 : request_.element_bytes));
  }

  // Gives the rank's processor `seconds` of work from `ready` on. Returns its end.
  double use_processor(Machine& machine, double ready, double seconds) {
    if (seconds <= 0) return ready;
    machine.processor_free = std::max(machine.processor_free, ready) + seconds;
    machine.processor_busy += seconds;
    return machine.processor_free;
  }

  void begin_round(std::size_t index, double now) {
    Machine& machine = machines_[index];
    if (machine.cursor.at_end()) return;
    ++rounds_;
    machine.end = now;
    machine.pending = 1;  // This round's beginning itself, so that it cannot end below.
    const auto ops = machine.cursor.ops();
    const std::int32_t iteration = machine.cursor.iteration();
    for (const Op& op : ops) {
      if (op.kind == OpKind::send) start_send(index, op.peer.at(iteration), bytes_of(index, op), now, false);
      if (op.kind == OpKind::post || synchronizes(op)) make_post(machine, now);
      if (op.placement != Placement::here) place(index, op, now);
    }
    for (const Op& op : ops) {
      const double work = bytes_of(index, op) * network_.work_s_per_byte();
      if (op.kind == OpKind::receive || op.kind == OpKind::receive_reduce) {
        expect(machine, {op.peer.at(iteration), op.kind == OpKind::receive_reduce ? work : 0}, now);
      } else if (op.kind == OpKind::fetch) {
        fetch(index, op.peer.at(iteration), bytes_of(index, op), 0, now);
      } else if (op.kind == OpKind::fetch_reduce || synchronizes(op)) {
        const double bytes = synchronizes(op) ? 0 : bytes_of(index, op);
        for (int source = 0; source < network_.ranks(); ++source) {
          if (source != static_cast<int>(index)) fetch(index, source, bytes, synchronizes(op) ? 0 : work, now);
        }
      } else if (op.kind != OpKind::send && op.kind != OpKind::post && op.placement == Placement::here) {
        machine.end = std::max(machine.end, use_processor(machine, now, work));
      }
    }
    settle(index);
  }

  // One part of the round is done; the last one lets the next round begin.
  void settle(std::size_t index) {
    Machine& machine = machines_[index];
    if (--machine.pending > 0) return;
    seconds_ = std::max(seconds_, machine.end);
    machine.cursor.next();
    if (!machine.cursor.at_end()) push(machine.end, EventKind::round, static_cast<std::uint32_t>(index));
  }

  // A message between two ranks, of which one is a representative.
  std::uint32_t make_message(int from, int to, double bytes) {
    ++messages_;
    const std::uint32_t id = new_message();
    Message& message = pool_[id];
    message = {};
    message.path = network_.path(from, to);
    if (symmetric_) {
      for (int hop = 0; hop < message.path.count; ++hop) {
        std::uint32_t& resource = message.path.hops[static_cast<std::size_t>(hop)];
        resource = network_.folded(resource, period_);
      }
    }
    message.bytes = bytes;
    message.sender = from % period_;
    message.receiver = to % period_;
    message.source = ((from - (to - message.receiver)) % network_.ranks() + network_.ranks()) % network_.ranks();
    return id;
  }

  void make_post(Machine& machine, double now) {
    ++machine.posts;
    for (const Pull& pull : std::exchange(machine.pulls, {})) {
      if (pull.number > machine.posts) {
        machine.pulls.push_back(pull);
      } else {
        start_pull(pull, now);
      }
    }
  }

  // What the source has posted comes from there, now or once it is posted.
  void fetch(std::size_t index, int source, double bytes, double work_s, double now) {
    Machine& machine = machines_[index];
    ++machine.pending;
    machine.waits.push_back({source, work_s});
    const Pull pull{index, source, machine.posts, bytes};
    Machine& owner = machines_[static_cast<std::size_t>(source % period_)];
    if (owner.posts >= pull.number) return start_pull(pull, now);
    owner.pulls.push_back(pull);
  }

  void start_pull(const Pull& pull, double now) {
    const std::uint32_t id = make_message(pull.source, static_cast<int>(pull.reader), pull.bytes);
    pool_[id].pulled = true;
    pass_hop(id, 0, now);
  }

  // Stores into other ranks' memory.
  void place(std::size_t index, const Op& op, double now) {
    for (int peer = 0; peer < network_.ranks(); ++peer) {
      const bool meant = op.placement == Placement::everywhere || peer == op.root;
      if (meant && peer != static_cast<int>(index)) start_send(index, peer, bytes_of(index, op), now, true);
    }
  }

  void start_send(std::size_t index, int peer, double bytes, double now, bool placed) {
    Machine& machine = machines_[index];
    ++machine.pending;
    const std::uint32_t id = make_message(static_cast<int>(index), peer, bytes);
    pool_[id].placed = placed;
    const double start = use_processor(machine, now, network_.message_s());
    if (start > now) {
      push(start, EventKind::hop, id);
    } else {
      pass_hop(id, 0, now);
    }
  }

  // The head of the message is at resource number `hop` of its path.
  void pass_hop(std::uint32_t id, int hop, double now) {
    Message& message = pool_[id];
    const std::uint32_t resource = message.path.hops[static_cast<std::size_t>(hop)];
    const double duration = message.bytes * per_byte_[resource];
    const double start = std::max(now, free_[resource]);
    free_[resource] = start + duration;
    busy_[resource] += duration;
    const int last = message.path.count - 1;
    // Whatever lies between the first and the last resource: the latency.
    const double before = hop == last && hop > 0 ? message.path.latency_s : 0;
    message.finish = std::max(start + duration, message.finish + before);
    if (hop == 0 && !message.pulled) {
      Machine& sender = machines_[static_cast<std::size_t>(message.sender)];
      sender.end = std::max(sender.end, message.finish);
      const auto index = static_cast<std::size_t>(message.sender);
      forward(id, hop, start, now);
      settle(index);
    } else {
      forward(id, hop, start, now);
    }
  }

  // An event of its own is needed only for what happens later than now.
  void forward(std::uint32_t id, int hop, double start, double now) {
    const Message& message = pool_[id];
    const int last = message.path.count - 1;
    if (hop < last) {
      const double head = start + (hop + 1 == last ? message.path.latency_s : 0);
      if (head > now) {
        push(head, EventKind::hop, id, static_cast<std::uint8_t>(hop + 1));
      } else {
        pass_hop(id, hop + 1, now);
      }
    } else {
      push(message.finish + (last == 0 ? message.path.latency_s : 0), EventKind::delivery, id);
    }
  }

  void deliver(std::uint32_t id, double now) {
    const Message& message = pool_[id];
    const auto index = static_cast<std::size_t>(message.receiver);
    Machine& machine = machines_[index];
    const int source = message.source;
    const bool placed = message.placed;
    unused_.push_back(id);
    if (placed) return;
    const auto wait = std::find_if(machine.waits.begin(), machine.waits.end(),
                                   [&](const Wait& expected) { return expected.source == source; });
    if (wait == machine.waits.end()) {
      inbox(machine, source).arrivals.push_back(now);
      return;
    }
    const double work = wait->work_s;
    *wait = machine.waits.back();
    machine.waits.pop_back();
    take(machine, work, now);
    settle(index);
  }

  void expect(Machine& machine, const Wait& wait, double now) {
    for (Inbox& box : machine.inboxes) {
      if (box.source != wait.source || box.taken == box.arrivals.size()) continue;
      if (++box.taken == box.arrivals.size()) {
        box.arrivals.clear();
        box.taken = 0;
      }
      take(machine, wait.work_s, now);
      return;
    }
    ++machine.pending;
    machine.waits.push_back(wait);
  }

  void take(Machine& machine, double work_s, double now) {
    machine.end = std::max(machine.end, use_processor(machine, now, network_.message_s() + work_s));
    machine.end = std::max(machine.end, now);
  }

  Inbox& inbox(Machine& machine, int source) {
    Inbox* empty = nullptr;
    for (Inbox& box : machine.inboxes) {
      if (box.source == source) return box;
      if (box.arrivals.empty()) empty = &box;
    }
    if (empty == nullptr) empty = &machine.inboxes.emplace_back();
    empty->source = source;
    return *empty;
  }

  std::uint32_t new_message() {
    if (unused_.empty()) {
      pool_.emplace_back();
      return static_cast<std::uint32_t>(pool_.size() - 1);
    }
    const std::uint32_t id = unused_.back();
    unused_.pop_back();
    return id;
  }

  Replay result() const {
    Replay replay;
    replay.seconds = seconds_;
    replay.classes = period_;
    replay.rounds = rounds_;
    replay.messages = messages_;
    double longest = 0;
    for (std::size_t i = 0; i < busy_.size(); ++i) {
      if (busy_[i] <= longest) continue;
      longest = busy_[i];
      const Resource resource = network_.resource(static_cast<std::uint32_t>(i));
      replay.bottleneck = resource.link;
      replay.bottleneck_which = resource.which;
    }
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      if (machines_[i].processor_busy <= longest) continue;
      longest = machines_[i].processor_busy;
      replay.bottleneck = "local work";
      replay.bottleneck_which = fmt::format("rank {}", i);
    }
    replay.bottleneck_share = seconds_ > 0 ? std::min(1.0, longest / seconds_) : 0;
    if (replay.bottleneck_share < 0.5) {
      replay.bottleneck = "latency";
      replay.bottleneck_which.clear();
    }
    return replay;
  }

  const Request& request_;
  const NetworkModel& network_;
  std::vector<Program> programs_;
  int period_;
  bool symmetric_;
  std::vector<Machine> machines_;
  std::vector<double> free_;  // By resource: when it is next free,
  std::vector<double> busy_;  // how long it has worked,
  std::vector<double> per_byte_;
  std::vector<Message> pool_;
  std::vector<std::uint32_t> unused_;
  EventQueue<Event> events_;
  std::int64_t rounds_ = 0;
  std::int64_t messages_ = 0;
  double seconds_ = 0;
};

}  // namespace

Result<Replay> replay(const Request& request, const std::function<Program(int)>& program_of,
                      const NetworkModel& network, const ReplayOptions& options) {
  TRIREME_CHECK(request.ranks == network.ranks(), "the request and the network have different numbers of ranks");
  Replayer replayer(request, representatives(program_of, network, options.use_symmetry), network);
  const std::int64_t rounds = replayer.count_rounds();
  if (options.most_rounds > 0 && rounds > options.most_rounds) {
    return resource_exhausted(
        fmt::format("the plan has {} rounds to replay; at most {} are allowed", rounds, options.most_rounds));
  }
  return replayer.run();
}

}  // namespace trireme::plan
