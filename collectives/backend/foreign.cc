#include "collectives/backend/foreign.h"

#include <algorithm>
#include <thread>

#include <fmt/core.h>

namespace trireme {
namespace {

constexpr int kSpins = 2000;            // Before a waiting rank yields its core.
constexpr int kPollsBetweenLooks = 64;  // At the communicator's health and the clock.

}  // namespace

Foreign::Foreign(std::unique_ptr<BackendCommunicator> backend, std::int64_t timeout_ms, std::function<Status()> health)
    : backend_(std::move(backend)), timeout_ms_(timeout_ms), health_(std::move(health)) {}

// What nobody waited for ends here, as it does with our own works.
Foreign::~Foreign() {
  for (const auto& operation : std::vector(in_flight_)) (void)wait(*operation);
}

std::shared_ptr<ForeignOperation> Foreign::start(const Call& call, std::unique_ptr<CallDetails> details,
                                                 const void* input, void* output) {
  auto operation = std::make_shared<ForeignOperation>();
  operation->call = call;
  operation->details = std::move(details);
  operation->status = broken_.is_ok() ? health_() : broken_;
  if (operation->status.is_ok()) operation->status = backend_->supports(call, operation->details.get());
  if (!operation->status.is_ok()) return operation;
  auto started = backend_->start(call, operation->details.get(), input, output);
  if (!started.is_ok()) {
    operation->status = break_with(started.status());
    return operation;
  }
  operation->request = std::move(started).value();
  in_flight_.push_back(operation);
  return operation;
}

void Foreign::advance(ForeignOperation& operation) {
  if (operation.over()) return;
  const Result<bool> tested = operation.request->test();
  if (tested.is_ok() && !tested.value()) return;
  if (!tested.is_ok()) operation.status = break_with(tested.status());
  operation.request.reset();
  std::erase_if(in_flight_, [&](const auto& other) { return other.get() == &operation; });
}

Status Foreign::break_with(Status status) {
  if (broken_.is_ok()) broken_ = std::move(status);
  return broken_;
}

bool Foreign::test(ForeignOperation& operation) {
  advance(operation);
  return operation.over();
}

void Foreign::poll() {
  for (const auto& operation : std::vector(in_flight_)) advance(*operation);
}

// Nothing in flight is looked at any more. What cannot be aborted the library may still use,
// so it is never freed.
void Foreign::give_up() {
  for (const auto& operation : in_flight_) {
    if (operation->status.is_ok()) operation->status = broken_;
    if (!backend_->info().abortable) {
      (void)operation->request.release();
      (void)operation->details.release();
    }
    operation->request.reset();
  }
  in_flight_.clear();
}

Status Foreign::wait(ForeignOperation& operation) {
  const Deadline deadline = Deadline::after_ms(static_cast<std::uint64_t>(timeout_ms_));
  for (int polls = 1; !test(operation); ++polls) {
    if (polls > kSpins) std::this_thread::yield();
    if (polls % kPollsBetweenLooks != 0) continue;
    Status failed = health_();
    if (failed.is_ok() && deadline.expired()) {
      failed =
          deadline_exceeded(fmt::format("{} was not done within {} ms; backend {} cannot say which rank is missing",
                                        describe(operation.call), timeout_ms_, backend_->info().name));
    }
    if (failed.is_ok()) continue;
    backend_->abort();
    operation.status = break_with(std::move(failed));
    give_up();
    return operation.status;
  }
  return operation.status;
}

}  // namespace trireme
