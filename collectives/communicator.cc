#include <trireme/collectives/communicator.h>

#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include <trireme/base/hash.h>

#include "collectives/communicator_impl.h"
#include "collectives/execute/scaled_sum.h"
#include "collectives/execute/validate.h"

namespace trireme {

Call make_call(CallKind kind, std::size_t count, DataType type, ReduceOp op, int root, int tag) {
  Call call;
  call.kind = kind;
  call.type = type;
  call.op = op;
  call.root = root;
  call.tag = tag;
  call.count = count;
  return call;
}

// ---- Work ----

Work::Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

Status Work::wait() {
  if (operation_ == nullptr) return {};
  if (operation_->done()) return operation_->status();
  return operation_->core->wait(*operation_);
}

bool Work::test() {
  if (operation_ == nullptr || operation_->done()) return true;
  operation_->core->poll();
  return operation_->done();
}

// ---- calls ----

Status Communicator::Impl::call_alone(const Call& call, const CallDetails* details, const void* input, void* output) {
  TRIREME_RETURN_IF_ERROR(core->status());
  std::size_t count = call.kind == CallKind::barrier ? 0 : call.count;
  if (call.kind == CallKind::all_to_all_v) count = static_cast<std::size_t>(details->counts.front());
  if (count == 0) return {};
  if (call.combining == Combining::scaled_sum) {
    scale_elements(output, input, count, call.type, details->factor);
  } else if (input != output) {
    // The reduction of one contribution, and its average, is itself.
    std::memcpy(output, input, count * size_of(call.type));
  }
  return {};
}

Status Communicator::Impl::call(const Call& call, const void* input, void* output, Details details) {
  if (group != nullptr || details != nullptr) {
    Work work = begin(call, input, output, std::move(details));
    if (group == nullptr) return work.wait();
    group->works.push_back(work);
    // Accepted: what becomes of it, the group's end will say.
    return work.operation_->done() ? work.operation_->status() : Status::ok();
  }
  TRIREME_RETURN_IF_ERROR(validate_call(call, nullptr, input, output, core->rank(), core->size()));
  if (trivially_done(call)) return call_alone(call, nullptr, input, output);
  OperationState operation;
  operation.call = call;
  operation.input = input;
  operation.output = output;
  core->start(operation);
  return core->wait(operation);
}

std::shared_ptr<Work::Operation> Communicator::Impl::new_operation() {
  for (const auto& operation : pool) {
    if (operation.use_count() != 1 || (operation->core != nullptr && !operation->done())) continue;
    operation->recycle();
    return operation;
  }
  pool.push_back(std::make_shared<Work::Operation>());
  return pool.back();
}

Work Communicator::Impl::begin(const Call& call, const void* input, void* output, Details details) {
  std::shared_ptr<Work::Operation> operation = new_operation();
  operation->core = core;
  const Status valid = validate_call(call, details.get(), input, output, core->rank(), core->size());
  if (!valid.is_ok() || trivially_done(call)) {
    operation->complete(valid.is_ok() ? call_alone(call, details.get(), input, output) : valid);
    return Work(std::move(operation));
  }
  if (call.combining == Combining::scaled_sum) {
    details->staging = stage_scaled_sum(call, *details, input, output, core->rank(), core->size());
  }
  operation->call = call;
  operation->input = input;
  operation->output = output;
  operation->details = std::move(details);
  operation->keep = operation;
  core->start(*operation);
  core->poll();
  return Work(std::move(operation));
}

Work Communicator::Impl::call_async(const Call& call, const void* input, void* output, Details details) {
  Work work = begin(call, input, output, std::move(details));
  if (group != nullptr) {
    group->works.push_back(work);
  } else {
    core->leave_to_progress_thread();
  }
  return work;
}

// ---- Communicator ----

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() {
  impl_->core->close();
  for (const auto& operation : impl_->pool) {
    if (operation.use_count() == 1) operation->core.reset();
  }
}

Result<std::shared_ptr<Communicator>> Communicator::create(std::shared_ptr<World> world,
                                                           const CommunicatorOptions& options) {
  if (world == nullptr) return invalid_argument("Communicator::create: world is null; pass what World::join returned");
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<Engine> engine, Engine::create(std::move(world), options));
  std::vector<int> members;
  for (int rank = 0; rank < engine->world().size(); ++rank) members.push_back(rank);
  auto impl = std::make_unique<Impl>();
  const std::uint64_t context = engine->first_context();
  impl->core = std::make_shared<Core>(std::move(engine), context, std::move(members));
  return std::shared_ptr<Communicator>(new Communicator(std::move(impl)));
}

int Communicator::rank() const {
  return impl_->core->rank();
}
int Communicator::size() const {
  return impl_->core->size();
}
World& Communicator::world() const {
  return impl_->core->engine()->world();
}

int Communicator::world_rank(int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < size(), "world_rank: no such rank in this communicator");
  return impl_->core->members()[static_cast<std::size_t>(rank)];
}

Result<std::shared_ptr<Communicator>> Communicator::split(int color, int key) {
  Core& core = *impl_->core;
  if (impl_->group != nullptr) return invalid_argument("split() inside a group: end the group first");
  std::vector<std::int32_t> all(2 * static_cast<std::size_t>(core.size()));
  const std::int32_t own[2] = {color, key};
  TRIREME_RETURN_IF_ERROR(impl_->call(make_call(CallKind::split, 2, DataType::i32), own, all.data()));
  const std::uint64_t number = core.next_split();
  if (color < 0) return std::shared_ptr<Communicator>();
  std::vector<int> ranks;
  for (int rank = 0; rank < core.size(); ++rank) {
    if (all[2 * static_cast<std::size_t>(rank)] == color) ranks.push_back(rank);
  }
  const auto key_of = [&](int rank) { return all[2 * static_cast<std::size_t>(rank) + 1]; };
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
  for (int& rank : ranks) rank = core.members()[static_cast<std::size_t>(rank)];
  // Equal in all members: the parent, which of its splits this is, the color.
  const std::uint64_t context = hash64(fmt::format("{}/{}/{}", core.context(), number, color)) & ~std::uint64_t{1};
  auto impl = std::make_unique<Impl>();
  impl->core = std::make_shared<Core>(core.engine(), context, std::move(ranks));
  return std::shared_ptr<Communicator>(new Communicator(std::move(impl)));
}

void Communicator::poll() {
  impl_->core->poll();
}
Status Communicator::status() const {
  return impl_->core->status();
}
void Communicator::abort(const std::string& reason) {
  impl_->core->abort(reason);
}

std::string Communicator::explain() const {
  const Core& core = *impl_->core;
  std::string text = fmt::format("communicator of {} ranks, context {:016x}, deadline {} ms\n", core.size(),
                                 core.context(), core.engine()->timeout_ms());
  for (int rank = 0; rank < core.size(); ++rank) {
    if (rank == core.rank()) continue;
    text += fmt::format("to rank {}: {}\n", rank,
                        core.engine()->fabric()->explain(core.members()[static_cast<std::size_t>(rank)]));
  }
  if (core.size() == 1) return text + "alone: calls are copies\n";
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, std::size_t{64} << 20}) {
    text += explain_all_reduce(bytes / 4, DataType::f32, ReduceOp::sum);
  }
  return text;
}

std::string Communicator::transport_to(int peer) const {
  TRIREME_CHECK(peer >= 0 && peer < size(), "transport_to: no such rank in this communicator");
  if (peer == rank()) return "";
  return impl_->core->engine()->fabric()->choice(world_rank(peer)).transport;
}

std::string Communicator::explain_all_reduce(std::size_t count, DataType type, ReduceOp op) const {
  const Core& core = *impl_->core;
  if (core.size() == 1) return "alone: calls are copies\n";
  return core.selector().explain(core.request_of(make_call(CallKind::all_reduce, count, type, op), nullptr));
}

}  // namespace trireme
