#include "collectives/execute/core.h"

#include <algorithm>

#include <fmt/core.h>
#include <trireme/platform/clock.h>

#include "collectives/execute/hosts.h"

namespace trireme {
namespace {

constexpr int kPollSweeps = 16;
constexpr std::uint64_t kExplanationWithinMs = 700;

}  // namespace

Core::Core(std::shared_ptr<Engine> engine, std::uint64_t context, std::vector<int> members, bool survivors)
    : engine_(std::move(engine)),
      context_(context),
      members_(std::move(members)),
      survivors_(survivors),
      rank_(static_cast<int>(std::find(members_.begin(), members_.end(), engine_->world().rank()) - members_.begin())),
      shares_memory_(engine_->share_memory(members_)),
      selector_(engine_->network(is_one_host(engine_->world(), members_)), engine_->forced(),
                engine_->tuning(is_one_host(engine_->world(), members_))),
      record_(std::make_shared<ActivityRecord>(context)),
      links_(members_.size()),
      offices_(members_.size()),
      windows_(rank_),
      executor_(*this) {
  ranks_per_host_ = even_ranks_per_host(engine_->world(), members_);
  if (size() > 1 && engine_->is_guarded()) recorder_ = engine_->record_communicator(context_, rank_, members_);
  engine_->add(this, record_);
}

Core::~Core() {
  close();
}

Result<Link*> Core::link(int peer) {
  std::unique_ptr<Link>& link = links_[static_cast<std::size_t>(peer)];
  if (link == nullptr) {
    auto channel = engine_->fabric()->open_channel(members_[static_cast<std::size_t>(peer)], context_);
    if (!channel.is_ok()) return channel.status();
    link = std::make_unique<Link>(std::move(channel).value(), engine_->is_guarded());
  }
  return link.get();
}

void Core::start(OperationState& operation) {
  const std::lock_guard lock(mutex_);
  if (engine_->is_guarded()) operation.begin_deadline();
  learn_failure();
  if (!broken_.is_ok()) return operation.complete(broken_);
  if (closed_) return operation.complete(aborted("the communicator is closed"));
  if (operation.call.kind < CallKind::send) {
    enqueue(operation);
  } else if (operation.call.root == rank_) {
    record(operation);
    post_locally(operation);
  } else {
    record(operation);
    auto office = post_office(operation.call.root);
    if (!office.is_ok()) {
      report_unopened(office.status(), members_[static_cast<std::size_t>(operation.call.root)]);
      return operation.complete(broken_);
    }
    office.value()->post(&operation);
  }
  pending_.store(count_pending());
}

void Core::enqueue(OperationState& operation) {
  operation.call.sequence = ++sequence_;
  operation.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &operation;
  last_ = &operation;
  ++queued_;
  operation.windows = may_use_windows(operation);
  record(operation);
}

std::size_t Core::count_pending() const {
  std::size_t pending = queued_ + to_self_.size();
  for (std::size_t peer : open_offices_) pending += offices_[peer]->pending();
  return pending;
}

bool Core::advance() {
  if (learn_failure()) return true;
  bool moved = advance_collective();
  moved |= advance_messages();
  if (moved) {
    idle_since_ns_ = 0;
    link_broken_since_ns_ = 0;
    if (waiting_published_) {
      record_->set_waiting({}, "");
      if (recorder_ != nullptr) recorder_->wait_for(waiting_record_, -1);
      waiting_published_ = false;
    }
  }
  return moved;
}

bool Core::advance_collective() {
  if (first_ == nullptr) return false;
  OperationState& operation = *first_;
  if (!executor_.active()) start_plan(operation);
  const bool moved = executor_.sweep();
  operation.moved |= moved;
  if (executor_.done()) {
    complete_current();
    return true;
  }
  if (executor_.declined()) {
    restart_without_windows(operation);
    return true;
  }
  if (executor_.mismatch()) return handle_mismatch(*executor_.mismatch(), operation);
  if (!executor_.error().is_ok()) {
    report_unopened(executor_.error(), -1);
    return true;
  }
  return moved;
}

void Core::start_plan(OperationState& operation) {
  const CompiledPlan& plan = compiled(operation);
  operation.call.algorithm = plan.algorithm;
  if (engine_->is_guarded()) {
    operation.begin_deadline();  // Before, it waited for the calls ahead of it.
    record_->enter(operation.call);
  }
  if (recorder_ != nullptr) recorder_->start(operation.record, plan.algorithm, operation.progress_ticks);
  const CallDetails* details = operation.details.get();
  Staging* staging = details == nullptr ? nullptr : details->staging.get();
  if (staging != nullptr) staging->before();
  current_plan_ = &plan;
  executor_.start(plan, operation.call, staging != nullptr ? staging->input : operation.input,
                  staging != nullptr ? staging->output : operation.output,
                  details == nullptr ? nullptr : details->custom.get());
}

// Returns true when that ended the communicator.
bool Core::handle_mismatch(const CallMismatch& differs, const OperationState& operation) {
  if (!suspicion_.is_ok()) return false;  // Being looked into.
  const int other = members_[static_cast<std::size_t>(differs.peer)];
  const std::string& name = engine_->names()[static_cast<std::size_t>(other)];
  if (!differs.theirs) {
    report(data_loss(name + " sent bytes that are no call signature: start all ranks from one build"), other);
    return true;
  }
  // The peer may be ahead or behind: compare with what we called under its number.
  std::optional<Call> ours = record_->recent_call(differs.theirs->sequence);
  if (differs.theirs->sequence == differs.ours.sequence) ours = differs.ours;
  const Status status =
      mismatch_status(engine_->names(), engine_->world().rank(), ours.value_or(operation.call), other, *differs.theirs);
  if (ours) {
    report(status, other);
    return true;
  }
  // It is ahead of us: an earlier call of its own is the one to show, so ask for it.
  suspicion_ = status;
  suspect_ = other;
  return false;
}

void Core::complete_current() {
  OperationState* operation = first_;
  first_ = operation->next;
  if (first_ == nullptr) last_ = nullptr;
  --queued_;
  executor_.reset();
  if (engine_->is_guarded()) record_->leave();
  pending_.store(count_pending());
  if (operation->details != nullptr && operation->details->staging) operation->details->staging->after();
  operation->complete({});
}

// Takes note of a failure that concerns us. Returns true when that broke us just now.
bool Core::learn_failure() {
  if (!broken_.is_ok()) return false;
  if (aborted_.load(std::memory_order_acquire)) {
    Status status;
    {
      const std::lock_guard lock(abort_mutex_);
      status = abort_status_;
    }
    break_with(status);
    return true;
  }
  const std::uint64_t failures = engine_->failures();
  if (failures == failures_seen_) return false;
  failures_seen_ = failures;
  const auto failure = known_failure();
  if (!failure) return false;
  break_with(failure->status);
  return true;
}

std::optional<Failure> Core::known_failure() const {
  World& world = engine_->world();
  return survivors_ ? world.failure_among(context_, members_) : world.failure(context_);
}

// All pending operations end with `status`, and all later ones.
void Core::break_with(const Status& status) {
  if (!broken_.is_ok()) return;
  broken_ = status;
  executor_.reset();
  record_->leave();
  record_->set_waiting({}, "");
  std::vector<OperationState*> ended(to_self_);
  for (OperationState* operation = first_; operation != nullptr; operation = operation->next)
    ended.push_back(operation);
  first_ = last_ = nullptr;
  queued_ = 0;
  to_self_.clear();
  for (OperationState* operation : ended) operation->complete(status);
  for (std::size_t peer : open_offices_) offices_[peer]->fail(status);
  pending_.store(0);
}

// Tells all members; the first report counts, in every rank, so we take what the World
// says when it says it soon.
void Core::report(const Status& status, int culprit) {
  if (!broken_.is_ok()) return;
  World& world = engine_->world();
  world.report_failure({status, culprit, context_});
  std::optional<Failure> known = known_failure();
  for (const Deadline patience = Deadline::after_ms(300); !known && !patience.expired(); known = known_failure()) {
    system_clock().sleep_ns(1'000'000);
  }
  break_with(known ? known->status : status);
}

// A channel could not be opened. When that is the echo of a death, the World says soon
// whose, and in the words that all ranks get.
void Core::report_unopened(const Status& status, int culprit) {
  const bool may_be_echo = status.code() == StatusCode::peer_dead;
  for (const Deadline patience = Deadline::after_ms(kExplanationWithinMs);
       may_be_echo && !known_failure() && !patience.expired();) {
    system_clock().sleep_ns(1'000'000);
  }
  report(status, culprit);
}

Status Core::status() const {
  const std::lock_guard lock(mutex_);
  if (!broken_.is_ok()) return broken_;
  if (aborted_.load(std::memory_order_acquire)) {
    const std::lock_guard abort_lock(abort_mutex_);
    return abort_status_;
  }
  if (const auto failure = known_failure(); failure) return failure->status;
  return {};
}

void Core::abort(const std::string& reason) {
  const Status status = aborted(fmt::format(
      "{} aborted the communicator: {}", engine_->names()[static_cast<std::size_t>(engine_->world().rank())], reason));
  {
    const std::lock_guard lock(abort_mutex_);
    if (aborted_.load()) return;
    abort_status_ = status;
    aborted_.store(true, std::memory_order_release);
  }
  engine_->world().report_failure({status, engine_->world().rank(), context_});
  engine_->ring();
}

Status Core::wait(OperationState& operation) {
  if (size() == 1) refuse_waiting_for_oneself(operation);
  if (operation.done()) return operation.status();
  driving_.fetch_add(1);
  Doorbell& bell = engine_->fabric()->doorbell();
  Patience patience(bell.policy());
  std::unique_lock lock(mutex_);
  while (!operation.done()) {
    const std::uint32_t seen = bell.value();
    if (advance()) {
      patience.renew();
      continue;
    }
    // Channels ring whenever they move; who posts rings sleepers only.
    const bool polls = executor_.uses_mailboxes();
    if (polls && patience.pause()) continue;
    if (polls) {
      executor_.arm();
      if (advance()) continue;
    }
    const Deadline next = look_after(lock);
    if (operation.done()) break;
    lock.unlock();
    polls ? bell.sleep(seen, next) : bell.wait(seen, next);
    lock.lock();
  }
  lock.unlock();
  driving_.fetch_sub(1);
  if (pending_.load() > 0) engine_->hand_over();
  return operation.status();
}

void Core::drive_together(const std::vector<Core*>& cores, const std::function<bool()>& done) {
  if (cores.empty()) return;
  for (Core* core : cores) core->driving_.fetch_add(1);
  Doorbell& bell = cores.front()->engine_->fabric()->doorbell();
  Patience patience(bell.policy());
  bool polls = false;  // Some core looks into mailboxes.
  const auto advance_all = [&](bool arm) {
    bool moved = false;
    polls = false;
    for (Core* core : cores) {
      const std::lock_guard lock(core->mutex_);
      if (arm) core->executor_.arm();
      moved |= core->advance();
      polls |= core->executor_.uses_mailboxes();
    }
    return moved;
  };
  while (!done()) {
    const std::uint32_t seen = bell.value();
    if (advance_all(false)) {
      patience.renew();
      continue;
    }
    if (polls && (patience.pause() || advance_all(true))) continue;
    Deadline next = Deadline::never();
    for (Core* core : cores) {
      std::unique_lock lock(core->mutex_);
      next = next.earlier(core->look_after(lock));
    }
    if (!done()) polls ? bell.sleep(seen, next) : bell.wait(seen, next);
  }
  for (Core* core : cores) {
    core->driving_.fetch_sub(1);
    core->leave_to_progress_thread();
  }
}

void Core::poll() {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < kPollSweeps && advance(); ++i) {
  }
}

void Core::leave_to_progress_thread() {
  if (pending_.load() > 0) engine_->wake_progress();
}

bool Core::wants_driving() const {
  return pending_.load() > 0 && driving_.load() == 0;
}

bool Core::drive() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  for (int i = 0; i < kPollSweeps && driving_.load() == 0 && advance(); ++i) moved = true;
  return moved;
}

bool Core::prepare_sleep() {
  const std::lock_guard lock(mutex_);
  if (driving_.load() > 0) return false;
  executor_.arm();
  return advance();
}

Deadline Core::look_after() {
  std::unique_lock lock(mutex_);
  if (driving_.load() > 0) return Deadline::never();
  return look_after(lock);
}

void Core::close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
  }
  while (pending_.load() > 0) {
    std::shared_ptr<OperationState> oldest;
    {
      const std::lock_guard lock(mutex_);
      if (const OperationState* operation = head(); operation != nullptr) oldest = operation->keep;
    }
    if (oldest == nullptr || !wait(*oldest).is_ok()) break;
  }
  engine_->remove(this, record_);
  const std::lock_guard lock(mutex_);
  closed_ = true;
  break_with(aborted("the communicator is closed"));
  links_.clear();
  mailboxes_.reset();
  offices_.clear();
  open_offices_.clear();
}

}  // namespace trireme
