// The executor's part in shared memory: posts, fetches, exposed buffers and fences.
#include <algorithm>
#include <cstring>

#include "collectives/execute/executor.h"

namespace trireme {

using plan::Buffer;
using plan::OpKind;
using plan::Placement;

namespace {

// Elements of this many bytes are combined between two looks at everything else.
constexpr std::size_t kStepBytes = 256 * 1024;
// Buffers from here on do not stay in the caches until they are read.
constexpr std::size_t kBeyondCachesBytes = std::size_t{8} << 20;
// Pieces from here on are stored past the caches into other ranks' memory.
constexpr std::size_t kLeastStreamed = 2048;

}  // namespace

bool Executor::prepare_shared(Run& run) {
  auto mailboxes = links_.mailboxes();
  if (!mailboxes.is_ok()) {
    error_ = mailboxes.status();
    return false;
  }
  mailboxes_ = mailboxes.value();
  run.number = mailboxes_->posts();
  return true;
}

bool Executor::step_post(Run& run) {
  if (!mailboxes_->ready() || !mailboxes_->may_post()) return false;
  mailboxes_->post(call_.signature, {run.a, run.a == nullptr ? 0 : run.elements * arithmetic_.bytes_of(false)});
  run.done = true;
  return true;
}

// A buffer that the call does not use lies anywhere.
Executor::Exposure Executor::own_exposure() const {
  const plan::Program& program = plan_->program;
  const plan::Collective collective = collective_of(call_.call.kind);
  const bool root = program.rank == call_.call.root;
  const bool from_root = collective == plan::Collective::broadcast || collective == plan::Collective::scatter;
  const bool to_root = collective == plan::Collective::reduce || collective == plan::Collective::gather;
  const auto bytes = [&](const plan::Layout& layout, bool used) {
    return used ? static_cast<std::size_t>(layout.elements) * arithmetic_.bytes_of(false) : 0;
  };
  const auto input = links_.windows().find(input_, bytes(program.input, root || !from_root));
  const auto output = links_.windows().find(output_, bytes(program.output, root || !to_root));
  if (!input || !output) return {};
  return {1, input->window, output->window, 0, input->offset, output->offset};
}

bool Executor::step_synchronize(Run& run) {
  if (!run.posted) {
    if (!mailboxes_->ready() || !mailboxes_->may_post()) return false;
    const bool exposes = run.op->kind == OpKind::expose;
    const Exposure exposure = exposes ? own_exposure() : Exposure{};
    const auto* bytes = reinterpret_cast<const std::byte*>(&exposure);
    mailboxes_->post(call_.signature, {bytes, exposes ? sizeof exposure : 0});
    run.number = mailboxes_->posts();
    run.posted = true;
  }
  if (!has_arrived(run)) return false;
  if (run.op->kind == OpKind::expose) take_exposures(run.number);
  run.done = !declined_;
  return true;
}

// All posts that the operation needs are there, and made for the same call.
bool Executor::has_arrived(const Run& run) {
  if (run.peer >= 0) return mailboxes_->has_posted(run.peer, run.number) && check_post(run.peer, run.number);
  if (!mailboxes_->all_have_posted(run.number)) {
    // A rank that has posted for another call will not wait for the others.
    for (int rank = 0; rank < mailboxes_->size(); ++rank) {
      if (mailboxes_->has_posted(rank, run.number) && !check_post(rank, run.number)) return false;
    }
    return false;
  }
  for (int rank = 0; rank < mailboxes_->size(); ++rank) {
    if (!check_post(rank, run.number)) return false;
  }
  return true;
}

bool Executor::check_post(int rank, std::uint64_t number) {
  const Signature& theirs = mailboxes_->signature(rank, number);
  if (theirs == call_.signature || !mailboxes_->compares()) return true;
  mismatch_ = CallMismatch{rank, decode_signature(theirs), call_.call};
  return false;
}

void Executor::take_exposures(std::uint64_t number) {
  exposed_.assign(static_cast<std::size_t>(mailboxes_->size()), {});
  for (int rank = 0; rank < mailboxes_->size(); ++rank) {
    Exposure exposure;
    std::memcpy(&exposure, mailboxes_->payload(rank, number), sizeof exposure);
    const auto input = links_.windows().at(rank, {exposure.input_window, exposure.input_offset}, 0);
    const auto output = links_.windows().at(rank, {exposure.output_window, exposure.output_offset}, 0);
    declined_ = declined_ || exposure.in_windows == 0 || !input || !output;
    if (!declined_) exposed_[static_cast<std::size_t>(rank)] = {*input, *output};
  }
}

// Where the operand lies of each rank that it is taken from.
void Executor::find_sources(const Run& run) {
  const plan::Op& op = *run.op;
  const plan::Program& program = plan_->program;
  const std::int32_t chunk = op.a.chunk.at(cursor_.iteration());
  const std::size_t element = arithmetic_.bytes_of(false);
  sources_.clear();
  const auto add = [&](int rank) {
    if (op.a.buffer == Buffer::posted) {
      const auto begin = static_cast<std::size_t>(chunk == 0 ? 0 : program.partition.part(chunk).begin);
      sources_.push_back(mailboxes_->payload(rank, run.number) + begin * element);
      return;
    }
    const bool input = op.a.buffer == Buffer::input;
    const Exposed& exposed = exposed_[static_cast<std::size_t>(rank)];
    const plan::Layout& layout = input ? program.input : program.output;
    sources_.push_back((input ? exposed.input : exposed.output) +
                       static_cast<std::size_t>(layout.part(chunk).begin) * element);
  };
  if (op.kind == OpKind::fetch) {
    add(run.peer);
  } else if (op.kind == OpKind::fetch_reduce) {
    for (int rank = 0; rank < mailboxes_->size(); ++rank) add(rank);
  } else {
    sources_.push_back(run.a);
  }
}

void Executor::find_targets(const Run& run) {
  const plan::Op& op = *run.op;
  targets_.clear();
  if (op.placement == Placement::here) {
    targets_.push_back({run.target, false});
    return;
  }
  const std::size_t piece = run.elements * arithmetic_.bytes_of(false);
  const bool beyond = piece * static_cast<std::size_t>(mailboxes_->size()) >= kBeyondCachesBytes;
  const std::size_t begin =
      static_cast<std::size_t>(plan_->program.output.part(op.target.chunk.at(cursor_.iteration())).begin) *
      arithmetic_.bytes_of(false);
  for (int rank = 0; rank < mailboxes_->size(); ++rank) {
    if (op.placement == Placement::there && rank != op.root) continue;
    std::byte* const target = exposed_[static_cast<std::size_t>(rank)].output + begin;
    // In place the lines are in our cache: they are read just before.
    const bool in_place = std::find(sources_.begin(), sources_.end(), target) != sources_.end();
    const bool own = rank == mailboxes_->rank();
    targets_.push_back({target, !in_place && (own ? beyond : piece >= kLeastStreamed)});
  }
}

bool Executor::step_fetch(Run& run) {
  if (run.op->a.buffer == Buffer::posted && run.moved == 0 && !has_arrived(run)) return false;
  find_sources(run);
  find_targets(run);
  const std::size_t element = arithmetic_.bytes_of(false);
  const std::size_t count = std::min(std::max<std::size_t>(1, kStepBytes / element), run.elements - run.moved);
  for (const std::byte*& source : sources_) source += run.moved * element;
  for (Arithmetic::Destination& target : targets_) target.data += run.moved * element;
  if (count > 0) arithmetic_.combine_all(targets_, sources_, count, run.op->finish);
  run.moved += count;
  run.done = run.moved == run.elements;
  return true;
}

void Executor::add_waits(const Run& run, std::size_t limit, std::vector<WaitEdge>& edges) const {
  std::vector<int> ranks = mailboxes_->absent();
  if (ranks.empty()) {
    // A post waits for the one before it of all others.
    const bool posts = run.op->kind == OpKind::post || (plan::synchronizes(*run.op) && !run.posted);
    for (int rank = 0; rank < mailboxes_->size(); ++rank) {
      const bool concerned = run.peer < 0 || run.peer == rank;
      if (concerned && !mailboxes_->has_posted(rank, posts ? mailboxes_->posts() : run.number)) ranks.push_back(rank);
    }
  }
  for (const int rank : ranks) {
    if (edges.size() < limit) edges.push_back({rank, true});
  }
}

}  // namespace trireme
