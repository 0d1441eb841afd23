// The plans of a communicator: made when first needed, then kept.
#include <algorithm>
#include <string_view>

#include <trireme/base/hash.h>

#include "collectives/execute/core.h"

namespace trireme {
namespace {

constexpr std::size_t kMostCachedPlans = 512;
constexpr std::uint64_t kWindowsBit = 0x80;  // Of a key; kinds are fewer.

std::uint64_t hash_counts(const std::vector<std::int64_t>& counts, const std::vector<std::int64_t>& more) {
  const auto bytes = [](const std::vector<std::int64_t>& list) {
    return std::string_view(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(std::int64_t));
  };
  return hash64(bytes(counts)) ^ hash64(bytes(more)) * 0x9e3779b97f4a7c15u;
}

bool uses_windows(const plan::Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const plan::Op& op) { return op.kind == plan::OpKind::expose; });
}

}  // namespace

plan::Request Core::request_of(const Call& call, const CallDetails* details) const {
  plan::Request request;
  request.collective = collective_of(call.kind);
  request.ranks = size();
  if (plan::is_rooted(request.collective)) request.root = call.root;
  request.count = static_cast<std::int64_t>(call.count);
  request.element_bytes = static_cast<std::int64_t>(size_of(call.type));
  const bool custom = call.combining == Combining::custom || call.combining == Combining::custom_in_order;
  request.wide = plan::reduces(request.collective) && !custom && is_wide_reduction(call.type, call.op);
  request.ordered = call.combining == Combining::custom_in_order;
  request.ranks_per_host = ranks_per_host_;
  request.shared_memory = shares_memory_;
  if (!is_uneven(call.kind) || details == nullptr) return request;
  request.counts = details->counts;
  request.receive_counts = details->receive_counts;
  // Equal on all ranks, also where their counts are not.
  request.count = static_cast<std::int64_t>(call.count) / size();
  return request;
}

const CompiledPlan& Core::compiled(const OperationState& operation) {
  const CallDetails* details = operation.details.get();
  const Call& call = details != nullptr && details->staging ? details->staging->executed : operation.call;
  PlanKey key{static_cast<std::uint64_t>(call.kind) | (operation.windows ? kWindowsBit : 0) |
                  static_cast<std::uint64_t>(call.type) << 8 | static_cast<std::uint64_t>(call.op) << 16 |
                  static_cast<std::uint64_t>(call.combining) << 24 |
                  static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32,
              call.count};
  const bool uneven = is_uneven(call.kind);
  if (uneven) key.count = hash_counts(details->counts, details->receive_counts);
  const auto found = plans_.find(key);
  if (found != plans_.end() && (!uneven || (found->second->counts == details->counts &&
                                            found->second->receive_counts == details->receive_counts))) {
    return *found->second;
  }
  if (plans_.size() >= kMostCachedPlans) plans_.clear();  // Nothing runs while a plan is made.
  plan::Request request = request_of(call, details);
  request.windows = operation.windows;
  return *plans_.insert_or_assign(key, compile(call, request)).first->second;
}

std::unique_ptr<CompiledPlan> Core::compile(const Call& call, const plan::Request& request) const {
  const plan::Algorithm* algorithm = selector_.choose(request);
  selector_.log_choice(request);
  auto plan = std::make_unique<CompiledPlan>();
  plan->program = algorithm->program(request, rank_);
  plan->arithmetic = Arithmetic(call.type, call.op, request.wide, request.ranks);
  plan->algorithm = static_cast<std::uint8_t>(algorithm - plan::algorithms().data());
  plan->scratch_bytes = static_cast<std::size_t>(plan->program.scratch_slots) *
                        static_cast<std::size_t>(plan->program.slot_elements) * plan->arithmetic.bytes_of(true);
  plan->counts = request.counts;
  plan->receive_counts = request.receive_counts;
  if (uses_windows(plan->program)) {
    plan::Request other = request;
    other.windows = false;
    plan->without_windows = compile(call, other);
  }
  return plan;
}

}  // namespace trireme
