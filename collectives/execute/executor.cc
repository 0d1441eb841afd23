#include "collectives/execute/executor.h"

#include <algorithm>
#include <cstdint>

#include <trireme/base/check.h>

namespace trireme {

using plan::Buffer;
using plan::OpKind;

namespace {
constexpr std::size_t kScratchAlignment = 64;
bool is_accumulator(Buffer buffer) {
  return buffer == Buffer::scratch;
}
bool is_shared(const plan::Op& op) {
  return op.kind >= OpKind::post || op.placement != plan::Placement::here;
}
}  // namespace

void Executor::start(const CompiledPlan& plan, const Call& call, const void* input, void* output,
                     const CustomReduction* custom) {
  TRIREME_CHECK(plan_ == nullptr, "an executor runs one program at a time");
  plan_ = &plan;
  arithmetic_ = plan.arithmetic;
  arithmetic_.set_custom(custom);
  call_ = {call, encode_signature(call)};
  input_ = static_cast<const std::byte*>(input);
  output_ = static_cast<std::byte*>(output);
  if (scratch_storage_.size() < plan.scratch_bytes + kScratchAlignment) {
    scratch_storage_ = std::vector<std::byte>(plan.scratch_bytes + kScratchAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_storage_.data());
    scratch_ = scratch_storage_.data() + (kScratchAlignment - address % kScratchAlignment) % kScratchAlignment;
  }
  cursor_ = plan::Cursor(plan.program);
  runs_.reserve(plan::widest_round(plan.program));
  used_.clear();
  done_ = false;
  if (!cursor_.at_end()) enter_round();
}

void Executor::reset() {
  plan_ = nullptr;
  runs_.clear();
  open_ = 0;
  done_ = false;
  declined_ = false;
  mailboxes_ = nullptr;
  error_ = {};
  mismatch_.reset();
}

void Executor::arm() {
  if (mailboxes_ != nullptr && mailboxes_->ready()) mailboxes_->arm();
}

std::byte* Executor::resolve(const plan::Reference& reference) const {
  const std::int32_t chunk = reference.chunk.at(cursor_.iteration());
  const plan::Program& program = plan_->program;
  const std::size_t element = arithmetic_.bytes_of(false);
  switch (reference.buffer) {
    case Buffer::none:
      return nullptr;
    case Buffer::input:  // Never written: the checker refuses plans that do.
      return const_cast<std::byte*>(input_) + static_cast<std::size_t>(program.input.part(chunk).begin) * element;
    case Buffer::output:
      return output_ + static_cast<std::size_t>(program.output.part(chunk).begin) * element;
    case Buffer::posted:  // Lies with its peer.
      return nullptr;
    case Buffer::scratch:
      return scratch_ + static_cast<std::size_t>(program.slot_begin(chunk)) * arithmetic_.bytes_of(true);
  }
  return nullptr;
}

bool Executor::prepare(const plan::Op& op, Run& run) {
  run = {&op, nullptr, -1, resolve(op.target), resolve(op.a), resolve(op.b), 0, 0, 0, false, false};
  if (!plan::synchronizes(op)) {
    run.elements = static_cast<std::size_t>(plan_->program.elements(op.length.at(cursor_.iteration()), op.span));
  }
  if (plan::has_peer(op)) run.peer = op.peer.at(cursor_.iteration());
  if (is_shared(op)) return prepare_shared(run);
  if (!plan::has_peer(op)) return true;
  auto link = links_.link(run.peer);
  if (!link.is_ok()) {
    error_ = link.status();
    return false;
  }
  run.link = link.value();
  const std::pair used(run.peer, run.link);
  if (op.kind == OpKind::send && std::find(used_.begin(), used_.end(), used) == used_.end()) used_.push_back(used);
  return true;
}

void Executor::enter_round() {
  runs_.clear();
  for (const plan::Op& op : cursor_.ops()) {
    Run run;
    if (!prepare(op, run)) return;
    runs_.push_back(run);
  }
  open_ = runs_.size();
}

bool Executor::sweep() {
  const bool moved = sweep_once();
  if (moved && mailboxes_ != nullptr) mailboxes_->disarm();  // Awake again.
  return moved;
}

bool Executor::sweep_once() {
  if (!error_.is_ok() || mismatch_ || done_ || declined_ || plan_ == nullptr) return false;
  if (cursor_.at_end()) return finish_drained();
  bool moved = false;
  for (Run& run : runs_) {
    if (run.done) continue;
    moved |= step(run);
    if (mismatch_ || declined_) return true;
    if (run.done) --open_;
  }
  if (open_ > 0) return moved;
  cursor_.next();
  if (!cursor_.at_end()) {
    enter_round();
  } else {
    finish_drained();
  }
  return true;
}

bool Executor::finish_drained() {
  for (const auto& [peer, link] : used_) {
    if (link->channel().drained()) continue;
    link->channel().progress();
    if (!link->channel().drained()) return false;
  }
  done_ = true;
  return true;
}

bool Executor::step(Run& run) {
  switch (run.op->kind) {
    case OpKind::send:
      return step_send(run);
    case OpKind::receive:
    case OpKind::receive_reduce:
      return step_receive(run);
    case OpKind::post:
      return step_post(run);
    case OpKind::expose:
    case OpKind::fence:
      return step_synchronize(run);
    default:
      return is_shared(*run.op) ? step_fetch(run) : step_local(run);
  }
}

// Of uneven parts between all pairs, each signature names the elements between its two.
const SignedCall& Executor::signed_call(const Run& run, SignedCall& room) const {
  if (call_.call.kind != CallKind::all_to_all_v) return call_;
  room = call_;
  room.call.count = run.elements;
  room.signature = encode_signature(room.call);
  return room;
}

bool Executor::step_send(Run& run) {
  run.link->channel().progress();
  SignedCall room;
  const SignedCall& call = signed_call(run, room);
  const std::size_t bytes = run.elements * arithmetic_.bytes_of(run.op->wire == plan::Wire::accumulator);
  const bool moved = run.link->send(call, {run.a, bytes}, run.moved);
  run.done = run.link->is_sent(call, bytes, run.moved);
  return moved || run.done;
}

bool Executor::step_receive(Run& run) {
  bool moved = false;
  run.link->channel().progress();
  SignedCall room;
  const SignedCall& call = signed_call(run, room);
  const Link::Signed known = run.link->check_signature(call, moved);
  if (known == Link::Signed::waiting) return moved;
  if (known == Link::Signed::differs) {
    mismatch_ = CallMismatch{run.peer, decode_signature(run.link->received_signature()), call.call};
    return true;
  }
  const Arithmetic& arithmetic = arithmetic_;
  const plan::Op& op = *run.op;
  const bool wire = op.wire == plan::Wire::accumulator;
  const bool stored = is_accumulator(op.target.buffer);
  const std::size_t width = arithmetic.bytes_of(wire);
  const std::size_t bytes = run.elements * width;
  const std::size_t target_width = arithmetic.bytes_of(stored);
  if (op.kind == OpKind::receive && target_width == width && !op.finish) {
    moved |= run.link->receive({run.target, bytes}, run.moved);
  } else {
    const bool own = is_accumulator(op.a.buffer);
    moved |= run.link->receive_through(bytes, width, run.moved, [&](const std::byte* data, std::size_t count) {
      const std::size_t done = run.moved / width;
      const Arithmetic::Target target{run.target + done * target_width, stored};
      const Arithmetic::Operand incoming{data, wire};
      if (op.kind == OpKind::receive) return arithmetic.convert(target, incoming, count, op.finish);
      const Arithmetic::Operand ours{run.a + done * arithmetic.bytes_of(own), own};
      if (op.incoming_first) return arithmetic.combine(target, incoming, ours, count, op.finish);
      arithmetic.combine(target, ours, incoming, count, op.finish);
    });
  }
  run.done = run.moved == padded(bytes);
  return moved || run.done;
}

bool Executor::step_local(Run& run) {
  const Arithmetic& arithmetic = arithmetic_;
  const plan::Op& op = *run.op;
  const bool stored = is_accumulator(op.target.buffer);
  const bool left = is_accumulator(op.a.buffer);
  const bool right = is_accumulator(op.b.buffer);
  const std::size_t slice = std::max<std::size_t>(1, 4 * kSliceBytes / arithmetic.bytes_of(true));
  const std::size_t count = std::min(slice, run.elements - run.moved);
  const std::size_t done = run.moved;
  if (count > 0) {
    const Arithmetic::Target target{run.target + done * arithmetic.bytes_of(stored), stored};
    const Arithmetic::Operand a{run.a + done * arithmetic.bytes_of(left), left};
    if (op.kind == OpKind::copy) {
      arithmetic.convert(target, a, count, op.finish);
    } else {
      arithmetic.combine(target, a, {run.b + done * arithmetic.bytes_of(right), right}, count, op.finish);
    }
  }
  run.moved += count;
  run.done = run.moved == run.elements;
  return true;
}

std::vector<WaitEdge> Executor::waiting_for(std::size_t limit) const {
  std::vector<WaitEdge> edges;
  for (const Run& run : runs_) {
    if (run.done || edges.size() >= limit) continue;
    if (is_shared(*run.op)) {
      add_waits(run, limit, edges);
    } else if (run.peer >= 0) {
      edges.push_back({run.peer, run.op->kind != OpKind::send});
    }
  }
  if (plan_ != nullptr && cursor_.at_end() && !done_) {
    for (const auto& [peer, link] : used_) {
      if (!link->channel().drained() && edges.size() < limit) edges.push_back({peer, false});
    }
  }
  return edges;
}

std::optional<Executor::BrokenLink> Executor::broken_link() const {
  for (const Run& run : runs_) {
    if (run.done || run.link == nullptr) continue;
    Status status = run.link->channel().status();
    if (!status.is_ok()) return BrokenLink{run.peer, std::move(status)};
  }
  if (mailboxes_ != nullptr && !mailboxes_->ready()) {
    if (auto [peer, status] = mailboxes_->failure(); !status.is_ok()) return BrokenLink{peer, std::move(status)};
  }
  for (const auto& [peer, link] : used_) {
    Status status = link->channel().status();
    if (!status.is_ok() && !link->channel().drained()) return BrokenLink{peer, std::move(status)};
  }
  return std::nullopt;
}

}  // namespace trireme
