// What a communicator does while nothing moves: says whom it waits for, asks the others
// what they do, and at the deadline names the rank to blame.
#include <algorithm>

#include <fmt/core.h>
#include <trireme/platform/clock.h>

#include "collectives/execute/core.h"

namespace trireme {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kPublishAfter = 50 * kMillisecond;  // Standing still: others may ask why.
constexpr std::uint64_t kInquireAfter = 250 * kMillisecond;
constexpr std::uint64_t kLongestInterval = 5'000 * kMillisecond;
constexpr std::uint64_t kAnswerWithinMs = 300;
// A closed connection may be the echo of a failure that the World will explain.
constexpr std::uint64_t kExplanationAfter = 700 * kMillisecond;
constexpr std::size_t kMostEdges = 8;

}  // namespace

const OperationState* Core::head() const {
  const OperationState* oldest = first_;
  const auto consider = [&](const OperationState* operation) {
    if (operation == nullptr) return;
    if (oldest == nullptr || operation->progress_ticks < oldest->progress_ticks) oldest = operation;
  };
  for (const OperationState* operation : to_self_) consider(operation);
  for (std::size_t peer : open_offices_) consider(offices_[peer]->oldest());
  return oldest;
}

std::uint64_t Core::deadline_ns(const OperationState& operation, std::uint64_t now_ns) const {
  const std::uint64_t ticks = tsc_now();
  const std::uint64_t spent = ticks > operation.progress_ticks ? tsc_to_ns(ticks - operation.progress_ticks) : 0;
  return now_ns - std::min(now_ns, spent) + static_cast<std::uint64_t>(engine_->timeout_ms()) * kMillisecond;
}

std::vector<int> Core::waits_of(const OperationState& operation) const {
  std::vector<int> ranks;
  if (operation.call.kind >= CallKind::send) {
    ranks.push_back(members_[static_cast<std::size_t>(operation.call.root)]);
    return ranks;
  }
  for (const WaitEdge& edge : executor_.waiting_for(kMostEdges)) {
    ranks.push_back(members_[static_cast<std::size_t>(edge.peer)]);
  }
  return ranks;
}

void Core::publish_waiting(const OperationState& operation) {
  const std::vector<int> waits = waits_of(operation);
  if (recorder_ != nullptr) recorder_->wait_for(operation.record, waits.empty() ? -1 : waits.front());
  waiting_record_ = operation.record;
  record_->set_waiting(waits, describe(operation.call));
  waiting_published_ = true;
}

Question Core::question_of(const OperationState& operation) const {
  Question question;
  question.context = context_;
  question.members = members_;
  question.self = engine_->world().rank();
  question.call = describe(operation.call);
  question.sequence = operation.call.kind < CallKind::send ? operation.call.sequence : 0;
  question.waits_for = waits_of(operation);
  question.timeout_ms = engine_->timeout_ms();
  question.names = engine_->names();
  return question;
}

// A connection we wait on is gone. The World usually knows why, and says so to all.
void Core::check_links() {
  std::optional<Executor::BrokenLink> broken = executor_.broken_link();
  for (std::size_t peer : open_offices_) {
    if (broken || offices_[peer]->pending() == 0) continue;
    Status status = offices_[peer]->channel_status();
    if (!status.is_ok()) broken = Executor::BrokenLink{static_cast<int>(peer), std::move(status)};
  }
  if (!broken) {
    link_broken_since_ns_ = 0;
    return;
  }
  const std::uint64_t now = system_clock().now_ns();
  if (link_broken_since_ns_ == 0) link_broken_since_ns_ = now;
  if (now - link_broken_since_ns_ < kExplanationAfter) return;
  report(broken->status, members_[static_cast<std::size_t>(broken->peer)]);
}

// A deadline counts the time in which no byte of a call moved. Movement is only noted
// while it happens; the clock is read here, when it has paused.
void Core::note_progress() {
  const std::uint64_t now = tsc_now();
  if (first_ != nullptr && first_->moved) first_->note_progress(now);
  for (std::size_t peer : open_offices_) offices_[peer]->note_progress(now);
}

Deadline Core::look_after(std::unique_lock<std::mutex>& lock) {
  note_progress();
  const OperationState* operation = head();
  if (operation == nullptr || !engine_->is_guarded()) return Deadline::never();
  const std::uint64_t now = system_clock().now_ns();
  if (idle_since_ns_ == 0) {
    idle_since_ns_ = now;
    inquiry_interval_ns_ = kInquireAfter;
    next_inquiry_ns_ = now + kInquireAfter;
  }
  check_links();
  if (!broken_.is_ok()) return Deadline::at_ns(now);
  const std::uint64_t deadline = deadline_ns(*operation, now);
  if (now >= idle_since_ns_ + kPublishAfter || now >= deadline) publish_waiting(*operation);
  if (now >= deadline || now >= next_inquiry_ns_ || !suspicion_.is_ok()) {
    inquire(lock, now >= deadline);
    return Deadline::at_ns(system_clock().now_ns());  // Try again at once.
  }
  std::uint64_t next = std::min(deadline, next_inquiry_ns_);
  if (!waiting_published_) next = std::min(next, idle_since_ns_ + kPublishAfter);
  if (link_broken_since_ns_ != 0) next = std::min(next, link_broken_since_ns_ + kExplanationAfter);
  return Deadline::at_ns(next);
}

void Core::inquire(std::unique_lock<std::mutex>& lock, bool deadline_passed) {
  const OperationState* operation = head();
  const Question question = question_of(*operation);
  const std::uint64_t idle_since = idle_since_ns_;
  lock.unlock();
  const auto texts = engine_->world().collect_activities(Deadline::after_ms(kAnswerWithinMs));
  Activities activities;
  for (const std::optional<std::string>& text : texts) {
    activities.push_back(text ? decode_activity(*text) : std::nullopt);
  }
  lock.lock();
  inquiry_interval_ns_ = std::min(2 * inquiry_interval_ns_, kLongestInterval);
  next_inquiry_ns_ = system_clock().now_ns() + inquiry_interval_ns_;
  learn_failure();
  if (!broken_.is_ok() || idle_since_ns_ != idle_since) return;  // Something happened meanwhile.
  if (advance()) return;
  // The deadline may have come while the answers did.
  const OperationState* still = head();
  const std::uint64_t now = system_clock().now_ns();
  deadline_passed |= still != nullptr && now >= deadline_ns(*still, now);
  const Verdict verdict = deadline_passed ? find_culprit(question, activities) : find_mismatch(question, activities);
  if (!verdict.status.is_ok()) return report(verdict.status, verdict.culprit);
  if (!suspicion_.is_ok()) report(suspicion_, suspect_);
}

}  // namespace trireme
