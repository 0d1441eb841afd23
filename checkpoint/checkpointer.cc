#include <trireme/checkpoint/checkpointer.h>

#include <cstdio>
#include <thread>

#include <trireme/base/hash.h>
#include <trireme/base/wire.h>

#include "checkpoint/catalog.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "checkpoint/staging.h"
#include "checkpoint/writer.h"
#include "runtime/platform/api/process.h"

namespace trireme {
namespace {

std::uint64_t hash_of(const CheckpointMetadata& metadata) {
  WireWriter writer;
  writer.u64(metadata.data_position);
  writer.u64(metadata.random_seed);
  writer.u64(metadata.random_counter);
  for (const auto& [key, value] : metadata.values) {
    writer.bytes(key);
    writer.bytes(value);
  }
  return hash64(writer.data());
}

// Names of exchanges are used once in the life of a world, so every Checkpointer has a
// scope of its own; each rank counts its own, and all count alike.
Result<std::string> make_scope(World& world) {
  TRIREME_ASSIGN_OR_RETURN(const std::int64_t instance,
                           world.add("checkpoint/instances/" + std::to_string(world.rank()), 1));
  return "checkpoint/" + std::to_string(instance);
}

Result<std::uint64_t> newest_generation(const std::string& directory) {
  TRIREME_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> entries, list_checkpoints(directory));
  std::uint64_t newest = 0;
  for (const CatalogEntry& entry : entries) {
    if (entry.has_manifest) newest = std::max(newest, entry.manifest.generation);
  }
  return newest;
}

}  // namespace

std::int64_t SaveHandle::step() const {
  return state_->step;
}

bool SaveHandle::done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

const Status& SaveHandle::previous_error() const {
  return state_->previous_error;
}

SaveStatistics SaveHandle::statistics() const {
  const std::lock_guard lock(state_->mutex);
  TRIREME_CHECK(state_->done, "statistics of a save that is not done");
  return state_->statistics;
}

struct Checkpointer::Impl {
  Impl(std::shared_ptr<World> joined, std::string scope, CheckpointerOptions options)
      : agreement(std::move(joined), std::move(scope)) {
    context.options = std::move(options);
    context.agreement = &agreement;
    context.owner = {agreement.world().job_id(), agreement.world().epoch(), random_hex(16)};
    writer = std::thread([this] { serve(); });
  }
  // Waits for the commit under way, but not for a rank that has been given up: its saves
  // come to nothing, and all ranks are told so.
  ~Impl() {
    const auto subscription = agreement.world().on_failure([this](const Failure& failure) {
      const std::lock_guard lock(mutex);
      if (!given_up) given_up = failure;
      changed.notify_all();
    });
    {
      std::unique_lock lock(mutex);
      stopping = true;
      changed.notify_all();
      changed.wait(lock, [this] { return job == nullptr || given_up; });
      if (job != nullptr && given_up->context != 0) {
        const Failure failure{given_up->status, given_up->culprit_rank, 0};
        lock.unlock();
        agreement.world().report_failure(failure);
      }
    }
    writer.join();
  }

  // What rank 0 does for all when the Checkpointer is created.
  Status claim(Deadline deadline) {
    if (context.options.read_only) return list_checkpoints(context.options.directory).status();
    TRIREME_RETURN_IF_ERROR(claim_directory(context.options.directory, context.owner, deadline));
    TRIREME_ASSIGN_OR_RETURN(context.generation, newest_generation(context.options.directory));
    return Status::ok();
  }

  std::string next_name(const char* kind) { return kind + std::to_string(++operations); }
  Deadline deadline() const {
    return Deadline::after_ms(static_cast<std::uint64_t>(context.options.commit_timeout_ms));
  }

  // Waits until the background thread is idle; the lock is held again afterwards.
  void wait_idle(std::unique_lock<std::mutex>& lock) {
    changed.wait(lock, [this] { return job == nullptr; });
  }

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || job != nullptr; });
      if (job == nullptr) return;
      lock.unlock();
      const Status status = run_save(context, *job);
      finish(status);
      lock.lock();
      if (!status.is_ok() && unreported.is_ok()) unreported = status;
      if (status.code() == StatusCode::stale_epoch) stale = status;
      job.reset();
      changed.notify_all();
    }
  }

  void finish(const Status& status) const {
    SaveHandle::State& handle = *job->handle;
    const std::lock_guard lock(handle.mutex);
    handle.status = status;
    handle.statistics.bytes = job->table.file_bytes;
    handle.statistics.total_ns = system_clock().now_ns() - job->started_ns;
    handle.done = true;
    handle.changed.notify_all();
  }

  std::unique_ptr<SaveJob> make_job(std::int64_t step, const CheckpointState& state, std::uint64_t started_ns);

  Agreement agreement;
  SaveContext context;  // Used by the background thread while there is a job.
  Staging staging;      // Likewise.
  std::uint64_t operations = 0;

  std::mutex mutex;  // Guards what follows.
  std::condition_variable changed;
  std::unique_ptr<SaveJob> job;
  Status unreported;  // The first error that no wait() and no handle has returned.
  Status stale;
  bool stopping = false;
  std::optional<Failure> given_up;  // Known while this is destroyed.
  std::thread writer;  // Last: it uses all of the above.
};

// Stages the state. What is wrong goes into the table, so that all ranks hear of it.
std::unique_ptr<SaveJob> Checkpointer::Impl::make_job(std::int64_t step, const CheckpointState& state,
                                                      std::uint64_t started_ns) {
  auto made = std::make_unique<SaveJob>();
  made->name = next_name("save-");
  made->deadline = deadline();
  made->started_ns = started_ns;
  made->metadata = state.metadata;
  made->metadata.step = step;
  made->metadata.epoch = agreement.world().epoch();
  made->table.step = step;
  made->table.metadata_hash = hash_of(state.metadata);
  made->table.file = shard_file_name(agreement.world().rank());
  made->handle = std::make_shared<SaveHandle::State>();
  made->handle->step = step;
  Result<StagingPlan> plan = plan_staging(state);
  made->table.status = plan.is_ok() ? staging.copy(*plan) : plan.status();
  if (step < 0)
    made->table.status = invalid_argument("a checkpoint's step is " + std::to_string(step) + ", expected 0 or more");
  if (!made->table.status.is_ok()) return made;
  made->staged = staging.data();
  made->table.file_bytes = plan->bytes;
  made->table.entries = std::move(plan->entries);
  return made;
}

Checkpointer::Checkpointer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpointer::~Checkpointer() = default;

Result<std::unique_ptr<Checkpointer>> Checkpointer::create(std::shared_ptr<World> world, CheckpointerOptions options) {
  if (options.directory.empty()) return invalid_argument("a Checkpointer needs a directory, and none was given");
  if (options.keep_last < 0 || options.commit_timeout_ms <= 0) {
    return invalid_argument("Checkpointer options: keep_last is " + std::to_string(options.keep_last) +
                            " (expected 0 or more), commit_timeout_ms " + std::to_string(options.commit_timeout_ms) +
                            " (expected more than 0)");
  }
  while (options.directory.size() > 1 && options.directory.back() == '/') options.directory.pop_back();
  TRIREME_ASSIGN_OR_RETURN(std::string scope, make_scope(*world));
  auto impl = std::make_unique<Impl>(std::move(world), std::move(scope), std::move(options));
  const Deadline deadline = impl->deadline();
  const Status claimed = impl->agreement.is_root() ? impl->claim(deadline) : Status::ok();
  TRIREME_ASSIGN_OR_RETURN(const std::string verdict,
                           impl->agreement.announce("create", encode_status(claimed), deadline));
  TRIREME_RETURN_IF_ERROR(decode_status(verdict));
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(impl)));
}

Status Checkpointer::prepare(const CheckpointState& state) {
  TRIREME_ASSIGN_OR_RETURN(const StagingPlan plan, plan_staging(state));
  std::unique_lock lock(impl_->mutex);
  impl_->wait_idle(lock);
  return impl_->staging.reserve(plan.bytes);
}

Result<SaveHandle> Checkpointer::save(std::int64_t step, const CheckpointState& state) {
  Impl& impl = *impl_;
  if (impl.context.options.read_only) {
    return invalid_argument("save() on a read-only Checkpointer of '" + impl.context.options.directory + "'");
  }
  const std::uint64_t started_ns = system_clock().now_ns();
  std::unique_lock lock(impl.mutex);
  impl.wait_idle(lock);
  TRIREME_RETURN_IF_ERROR(impl.stale);
  auto job = impl.make_job(step, state, started_ns);
  auto handle = job->handle;
  handle->previous_error = impl.unreported;
  impl.unreported = Status::ok();
  handle->statistics.stall_ns = system_clock().now_ns() - started_ns;
  impl.job = std::move(job);
  impl.changed.notify_all();
  return SaveHandle(std::move(handle));
}

Status Checkpointer::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->wait_idle(lock);
  Status status = impl_->unreported;
  impl_->unreported = Status::ok();
  return status;
}

Result<LoadedCheckpoint> Checkpointer::load(const std::string& path, CheckpointState& state,
                                            const LoadOptions& options) {
  if (path.empty()) return invalid_argument("load() needs the path of a checkpoint, and none was given");
  std::unique_lock lock(impl_->mutex);
  impl_->wait_idle(lock);
  const LoadJob job{impl_->next_name("load-"), impl_->deadline(), impl_->context.options.directory, path, options};
  TRIREME_ASSIGN_OR_RETURN(auto loaded, run_load(impl_->agreement, job, state));
  TRIREME_CHECK(loaded.has_value(), "a load of a given path found nothing and no error");
  return std::move(*loaded);
}

Result<std::optional<LoadedCheckpoint>> Checkpointer::load_newest(CheckpointState& state, const LoadOptions& options) {
  std::unique_lock lock(impl_->mutex);
  impl_->wait_idle(lock);
  const LoadJob job{impl_->next_name("load-"), impl_->deadline(), impl_->context.options.directory, "", options};
  return run_load(impl_->agreement, job, state);
}

Status SaveHandle::wait(Deadline deadline) const {
  std::unique_lock lock(state_->mutex);
  const auto done = [this] { return state_->done; };
  if (deadline.is_never()) {
    state_->changed.wait(lock, done);
  } else {
    const auto left = std::chrono::milliseconds(deadline.remaining_ms());
    if (!state_->changed.wait_for(lock, left, done)) {
      return deadline_exceeded("the checkpoint of step " + std::to_string(state_->step) + " is not yet committed");
    }
  }
  return state_->status;
}

}  // namespace trireme
