// One call of a collective with all ranks in one thread: executors over channels in
// memory, so that a failure repeats exactly.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/execute/executor.h"
#include "tests/collectives/memory_channel.h"
#include "tests/collectives/reference.h"

namespace trireme::test {

using plan::Collective;

struct PlanCase {
  const plan::Algorithm* algorithm;
  Collective collective;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int ranks = 2;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  std::size_t capacity = 4096;  // Of each channel.
  std::size_t glimpse = 4096;
  std::string describe() const {
    return std::string(algorithm->name) + " " + std::string(plan::to_string(collective)) + " " +
           std::string(to_string(type)) + " " + std::string(to_string(op)) + " ranks=" + std::to_string(ranks) +
           " count=" + std::to_string(count) + " root=" + std::to_string(root) + (in_place ? " in place" : "") +
           " capacity=" + std::to_string(capacity) + " glimpse=" + std::to_string(glimpse);
  }
};

class Links final : public LinkTable {
 public:
  Result<Link*> link(int peer) override { return links[peer].get(); }
  Result<Mailboxes*> mailboxes() override { return boxes.get(); }
  const Windows& windows() const override { return *shared; }
  std::map<int, std::unique_ptr<Link>> links;
  std::unique_ptr<Mailboxes> boxes;
  std::unique_ptr<Windows> shared;
};

// The mailboxes of `ranks` ranks of one host, which all are this thread.
inline std::vector<std::unique_ptr<Mailboxes>> make_mailboxes(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t each = (Mailboxes::bytes() + 63) / 64 * 64;
  const std::shared_ptr<SharedHeap> heap = SharedHeap::create("trireme-test", n * each).value();
  const std::shared_ptr<SharedHeap> bells = SharedHeap::create("trireme-test", 4096).value();
  auto* bell = new (bells->base()) DoorbellWord;
  std::vector<std::unique_ptr<Mailboxes>> boxes;
  for (std::size_t rank = 0; rank < n; ++rank) {
    std::vector<std::shared_ptr<PeerMemory>> peers(n);
    for (std::size_t peer = 0; peer < n; ++peer) {
      if (peer == rank) continue;
      peers[peer] = std::make_shared<PeerMemory>();
      peers[peer]->arrive(heap, peer * each, {bells, bell});
    }
    boxes.push_back(std::make_unique<Mailboxes>(static_cast<int>(rank), heap->base() + rank * each, heap, peers));
  }
  return boxes;
}

// All ranks of one call.
class PlanRanks {
 public:
  explicit PlanRanks(const PlanCase& run) : case_(run), links_(static_cast<std::size_t>(run.ranks)) {
    for (int a = 0; a < run.ranks; ++a) {
      for (int b = a + 1; b < run.ranks; ++b) {
        auto [left, right] = memory_channels(run.capacity, run.glimpse);
        links_[static_cast<std::size_t>(a)].links[b] = std::make_unique<Link>(std::move(left));
        links_[static_cast<std::size_t>(b)].links[a] = std::make_unique<Link>(std::move(right));
      }
    }
    inputs.resize(links_.size());
    outputs.resize(links_.size());
    auto boxes = make_mailboxes(run.ranks);
    for (std::size_t r = 0; r < links_.size(); ++r) links_[r].boxes = std::move(boxes[r]);
  }

  plan::Request request() const {
    plan::Request request{case_.collective,
                          case_.ranks,
                          case_.root,
                          static_cast<std::int64_t>(case_.count),
                          static_cast<std::int64_t>(size_of(case_.type)),
                          plan::reduces(case_.collective) && is_wide_reduction(case_.type, case_.op)};
    request.ranks_per_host = case_.ranks % 2 == 0 ? 2 : 0;
    request.shared_memory = request.windows = true;
    return request;
  }

  // Runs the call once; inputs and outputs are set. False when it does not end.
  bool execute(std::uint64_t sequence) {
    share_buffers();
    std::vector<CompiledPlan> plans(links_.size());
    std::vector<std::unique_ptr<Executor>> executors;
    Call call;
    call.kind = static_cast<CallKind>(case_.collective);
    call.type = case_.type;
    call.op = case_.op;
    call.root = case_.root;
    call.count = case_.count;
    call.sequence = sequence;
    for (std::size_t r = 0; r < links_.size(); ++r) {
      plans[r].program = case_.algorithm->program(request(), static_cast<int>(r));
      plans[r].arithmetic = Arithmetic(case_.type, case_.op, request().wide, case_.ranks);
      plans[r].scratch_bytes = static_cast<std::size_t>(plans[r].program.scratch_slots) *
                               static_cast<std::size_t>(plans[r].program.slot_elements) *
                               plans[r].arithmetic.bytes_of(true);
      executors.push_back(std::make_unique<Executor>(links_[r]));
      executors.back()->start(plans[r], call, input_of(r), output_of(r));
    }
    for (int idle = 0; idle < 3;) {
      bool moved = false;
      bool all = true;
      for (auto& executor : executors) {
        moved |= executor->sweep();
        all = all && executor->done();
        if (executor->mismatch()) return false;
      }
      if (all) return true;
      idle = moved ? 0 : idle + 1;
    }
    return false;
  }

  std::byte* input_of(std::size_t rank) {
    if (is_in_place(rank) && !plan::scatters(case_.collective)) {
      return outputs[rank].data() + (plan::gathers(case_.collective) ? own_offset(rank) : 0);
    }
    return inputs[rank].data();
  }
  std::byte* output_of(std::size_t rank) {
    if (is_in_place(rank) && plan::scatters(case_.collective)) return inputs[rank].data() + own_offset(rank);
    return outputs[rank].data();
  }

  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<std::byte>> outputs;

 private:
  // Inputs are one window, outputs another.
  void share_buffers() {
    for (std::size_t r = 0; r < links_.size(); ++r) {
      links_[r].shared = std::make_unique<Windows>(static_cast<int>(r));
      for (auto* buffers : {&inputs, &outputs}) {
        std::vector<Windows::Part> parts;
        for (std::vector<std::byte>& buffer : *buffers) parts.push_back({buffer.data(), buffer.size()});
        links_[r].shared->add(std::move(parts), nullptr);
      }
    }
  }
  std::size_t own_offset(std::size_t rank) const { return rank * case_.count * size_of(case_.type); }
  bool is_in_place(std::size_t rank) const {
    const bool one_sided = case_.collective == Collective::gather || case_.collective == Collective::scatter;
    return case_.in_place && (!one_sided || rank == static_cast<std::size_t>(case_.root));
  }
  PlanCase case_;
  std::vector<Links> links_;
};

inline void fill(PlanRanks& run, const PlanCase& c) {
  const auto request = run.request();
  for (int rank = 0; rank < c.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    run.inputs[r] = make_input(c.type, c.op, rank, static_cast<std::size_t>(plan::input_elements(request, rank)));
    run.outputs[r].assign(static_cast<std::size_t>(plan::output_elements(request, rank)) * size_of(c.type),
                          std::byte{0x5a});
    if (c.in_place && !run.inputs[r].empty()) std::memcpy(run.input_of(r), run.inputs[r].data(), run.inputs[r].size());
  }
}

}  // namespace trireme::test
