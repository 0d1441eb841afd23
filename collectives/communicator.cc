#include <trireme/collectives/communicator.h>

#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include <trireme/base/hash.h>
#include <trireme/platform/environment.h>

#include "collectives/communicator_impl.h"
#include "collectives/execute/reproducible.h"
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
  if (operation_->foreign != nullptr) return operation_->foreign->wait(*operation_->foreign_call);
  if (operation_->done()) return operation_->status();
  return operation_->core->wait(*operation_);
}

bool Work::test() {
  if (operation_ != nullptr && operation_->foreign != nullptr) {
    return operation_->foreign->test(*operation_->foreign_call);
  }
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
  if (group != nullptr || details != nullptr || foreign != nullptr || is_staged(call)) {
    Work work = begin(call, input, output, std::move(details));
    if (group == nullptr) return work.wait();
    group->works.push_back(work);
    // Accepted: what becomes of it, the group's end will say.
    if (foreign != nullptr) return work.operation_->foreign_call->status;
    return work.operation_->done() ? work.operation_->status() : Status::ok();
  }
  TRIREME_RETURN_IF_ERROR(validate_call(call, nullptr, input, output, core->rank(), core->size()));
  TRIREME_RETURN_IF_ERROR(check_reproducible(call));
  if (trivially_done(call)) return call_alone(call, nullptr, input, output);
  OperationState operation;
  operation.call = call;
  operation.input = input;
  operation.output = output;
  core->start(operation);
  return core->wait(operation);
}

bool Communicator::Impl::is_staged(const Call& call) const {
  return core->engine()->reproducible() && is_order_dependent(call);
}

Status Communicator::Impl::check_reproducible(const Call& call) const {
  const bool product = !is_message(call.kind) && plan::reduces(collective_of(call.kind)) &&
                       call.combining == Combining::named && call.op == ReduceOp::product;
  if (!core->engine()->reproducible() || !product || !is_floating_point(call.type)) return {};
  return unsupported(describe(call) +
                     ": a reproducible communicator has no products of floating-point numbers; "
                     "use another communicator for them");
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

void Communicator::Impl::adopt(std::unique_ptr<BackendCommunicator> backend) {
  if (backend == nullptr) return;
  const std::weak_ptr<Core> health = core;
  foreign = std::make_shared<Foreign>(std::move(backend), core->engine()->timeout_ms(), [health]() -> Status {
    const std::shared_ptr<Core> alive = health.lock();
    return alive != nullptr ? alive->status() : aborted("the communicator is gone");
  });
}

Work Communicator::Impl::begin_foreign(const Call& call, const void* input, void* output, Details details) {
  auto operation = std::make_shared<Work::Operation>();
  operation->foreign = foreign;
  const Status valid = validate_call(call, details.get(), input, output, core->rank(), core->size());
  if (valid.is_ok()) {
    operation->foreign_call = foreign->start(call, std::move(details), input, output);
  } else {
    operation->foreign_call = std::make_shared<ForeignOperation>();
    operation->foreign_call->status = valid;
  }
  return Work(std::move(operation));
}

Work Communicator::Impl::begin(const Call& call, const void* input, void* output, Details details) {
  if (foreign != nullptr && call.kind != CallKind::split) {
    return begin_foreign(call, input, output, std::move(details));
  }
  std::shared_ptr<Work::Operation> operation = new_operation();
  operation->core = core;
  Status valid = validate_call(call, details.get(), input, output, core->rank(), core->size());
  if (valid.is_ok()) valid = check_reproducible(call);
  if (!valid.is_ok() || trivially_done(call)) {
    operation->complete(valid.is_ok() ? call_alone(call, details.get(), input, output) : valid);
    return Work(std::move(operation));
  }
  if (is_staged(call)) {
    auto [first, second] = stage_reproducible(call, details.get(), input, output, core->rank(), core->size());
    const std::shared_ptr<Work::Operation> before = new_operation();
    before->core = core;
    submit(before, call, input, output, std::move(first));
    details = std::move(second);
  } else if (call.combining == Combining::scaled_sum) {
    details->staging = stage_scaled_sum(call, *details, input, output, core->rank(), core->size());
  }
  submit(operation, call, input, output, std::move(details));
  core->poll();
  return Work(std::move(operation));
}

void Communicator::Impl::submit(const std::shared_ptr<Work::Operation>& operation, const Call& call, const void* input,
                                void* output, Details details) {
  operation->call = call;
  operation->input = input;
  operation->output = output;
  operation->details = std::move(details);
  operation->keep = operation;
  core->start(*operation);
}

Work Communicator::Impl::call_async(const Call& call, const void* input, void* output, Details details) {
  Work work = begin(call, input, output, std::move(details));
  if (group != nullptr) {
    group->works.push_back(work);
  } else if (foreign == nullptr) {
    core->leave_to_progress_thread();
  }
  return work;
}

// ---- Communicator ----

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() {
  impl_->foreign.reset();  // Ends what is in flight there, unless a Work outlives us.
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
  const std::string backend =
      options.backend.empty() ? environment("TRIREME_BACKEND").value_or("ours") : options.backend;
  if (options.reproducible && backend != "ours") {
    return unsupported("backend " + backend + ": only ours has reproducible sums (CommunicatorOptions::reproducible)");
  }
  BackendResult made = make_backend(backend, impl->core->engine()->shared_world());
  if (!made.is_ok()) return made.status();
  impl->adopt(std::move(made).value());
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
  std::unique_ptr<BackendCommunicator> part;
  if (impl_->foreign != nullptr) {
    TRIREME_ASSIGN_OR_RETURN(part, impl_->foreign->backend().split(color, key));
  }
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
  impl->core = std::make_shared<Core>(core.engine(), context, std::move(ranks), core.survivors());
  impl->adopt(std::move(part));
  return std::shared_ptr<Communicator>(new Communicator(std::move(impl)));
}

Result<std::shared_ptr<Communicator>> Communicator::shrink(const std::vector<int>& excluded) {
  Core& core = *impl_->core;
  if (impl_->group != nullptr) return invalid_argument("shrink() inside a group: end the group first");
  if (impl_->foreign != nullptr) return unsupported("shrink(): backend " + backend().name + " cannot shrink");
  std::vector<int> candidates;
  for (int rank = 0; rank < core.size(); ++rank) {
    const bool out = std::find(excluded.begin(), excluded.end(), rank) != excluded.end();
    if (!out) candidates.push_back(core.members()[static_cast<std::size_t>(rank)]);
    if (out && rank == core.rank())
      return invalid_argument("shrink(): this rank itself is excluded, so it must not call");
  }
  for (const int rank : excluded) {
    if (rank >= 0 && rank < core.size()) continue;
    return invalid_argument(
        fmt::format("shrink(): there is no rank {} to exclude; expected 0 to {}", rank, core.size() - 1));
  }
  const std::string name = fmt::format("trireme/shrink/{:016x}/{}", core.context(), core.next_shrink());
  auto survivors = world().agree_on_survivors(
      name, candidates, Deadline::after_ms(static_cast<std::uint64_t>(core.engine()->timeout_ms())));
  if (!survivors.is_ok()) return survivors.status().with_context("shrinking a communicator");
  const std::vector<int>& members = survivors.value();
  if (std::find(members.begin(), members.end(), world().rank()) == members.end()) {
    return aborted("shrinking a communicator: the store takes this rank for dead");
  }
  const std::uint64_t context = hash64(members.data(), members.size() * sizeof(int), hash64(name)) & ~std::uint64_t{1};
  auto impl = std::make_unique<Impl>();
  impl->core = std::make_shared<Core>(core.engine(), context, members, true);
  return std::shared_ptr<Communicator>(new Communicator(std::move(impl)));
}

const BackendInfo& Communicator::backend() const {
  static const BackendInfo ours = [] {
    BackendInfo info;
    info.name = "ours";
    info.version = "Trireme";
    return info;
  }();
  return impl_->foreign != nullptr ? impl_->foreign->backend().info() : ours;
}

Result<void*> Communicator::allocate(std::size_t bytes) {
  return impl_->core->allocate(bytes);
}
Status Communicator::deallocate(void* memory) {
  return impl_->core->deallocate(memory);
}
void* Communicator::mapped(const void* memory, int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < size(), "mapped: no such rank in this communicator");
  return impl_->core->mapped(memory, rank);
}

void Communicator::poll() {
  if (impl_->foreign != nullptr) impl_->foreign->poll();
  impl_->core->poll();
}
Status Communicator::status() const {
  if (impl_->foreign != nullptr && !impl_->foreign->status().is_ok()) return impl_->foreign->status();
  return impl_->core->status();
}
void Communicator::abort(const std::string& reason) {
  impl_->core->abort(reason);
}

std::string Communicator::explain() const {
  const Core& core = *impl_->core;
  std::string text =
      fmt::format("backend {} ({})\ncommunicator of {} ranks, context {:016x}, deadline {} ms\n", backend().name,
                  backend().version, core.size(), core.context(), core.engine()->timeout_ms());
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
