// The side of the user's threads. The service thread is in store_service.cc.
#include "runtime/rendezvous/store_client.h"

#include <chrono>

#include <fmt/core.h>

#include <trireme/base/wire.h>

namespace trireme::store {
namespace {

constexpr std::uint64_t kLeaveMs = 2000;
constexpr std::uint64_t kLateAnswerMs = 1000;  // For the store's list of who has not come.

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::start(StoreSession session, StoreClientOptions options,
                                                        std::shared_ptr<WorldSignals> signals) {
  TRIREME_ASSIGN_OR_RETURN(EventFd wake, EventFd::create());
  return std::unique_ptr<StoreClient>(
      new StoreClient(std::move(session), std::move(wake), std::move(options), std::move(signals)));
}

StoreClient::StoreClient(StoreSession session, EventFd wake, StoreClientOptions options,
                         std::shared_ptr<WorldSignals> signals)
    : options_(std::move(options)), signals_(std::move(signals)), session_(std::move(session)), wake_(std::move(wake)) {
  thread_ = std::thread([this] { loop(); });
}

StoreClient::~StoreClient() {
  {
    // The reply tells that the store has read everything we sent, the leave included:
    // closing at once could reset the connection and look like a death.
    std::unique_lock lock(mutex_);
    const Deadline deadline = Deadline::after_ms(kLeaveMs);
    Pending pending;
    const std::uint64_t id = next_id_++;
    leaving_ = true;
    pending_.emplace(id, &pending);
    submit_locked(MessageType::leave, id, {});
    while (!pending.done && !stop_ && closed_.is_ok() && !deadline.expired()) wait_locked(lock, deadline);
    pending_.erase(id);
    stop_ = true;
  }
  wake_.signal();
  thread_.join();
}

void StoreClient::submit_locked(MessageType type, std::uint64_t id, std::string payload) {
  outgoing_.push_back({type, id, std::make_shared<const std::string>(std::move(payload))});
  wake_.signal();
}

void StoreClient::wait_locked(std::unique_lock<std::mutex>& lock, Deadline deadline) {
  if (deadline.is_never()) {
    changed_.wait(lock);
  } else {
    changed_.wait_for(lock, std::chrono::milliseconds(deadline.remaining_ms()));
  }
}

Status StoreClient::ended_locked() const {
  if (const auto failure = signals_->failures.first(0)) return failure->status;
  return closed_;
}

Status StoreClient::ended_locked(MessageType type) const {
  if (type != MessageType::survivors) return ended_locked();
  return closed_.is_ok() && stop_ ? aborted("the world is being left") : closed_;
}

Result<std::string> StoreClient::call(MessageType type, std::string payload, Deadline deadline,
                                      const std::string& what) {
  std::unique_lock lock(mutex_);
  TRIREME_RETURN_IF_ERROR(ended_locked(type));
  Pending pending;
  const std::uint64_t id = next_id_++;
  pending_.emplace(id, &pending);
  submit_locked(type, id, std::move(payload));
  bool cancelled = false;
  while (!pending.done) {
    if (Status ended = ended_locked(type); !ended.is_ok()) {
      pending_.erase(id);
      return ended;
    }
    if (!deadline.expired()) {
      wait_locked(lock, deadline);
      continue;
    }
    if (!cancelled) submit_locked(MessageType::cancel, id, {});
    if (cancelled || (type != MessageType::exchange && type != MessageType::survivors)) {
      pending_.erase(id);
      return on_deadline(type, what);
    }
    cancelled = true;
    deadline = Deadline::after_ms(kLateAnswerMs);
  }
  pending_.erase(id);
  lock.unlock();
  return decode_reply(pending.reply);
}

Result<std::string> StoreClient::on_deadline(MessageType type, const std::string& what) const {
  std::string gone;
  for (const int rank : departed_) gone += (gone.empty() ? "" : ", ") + options_.peers[rank].to_string();
  if (!gone.empty()) gone = "; these ranks have left: " + gone;
  if (type == MessageType::get) {
    return deadline_exceeded(
        fmt::format("rank {} waited for {} and nobody put it in time{}", options_.identity.rank, what, gone));
  }
  return deadline_exceeded(fmt::format("rank {}: the store at {} did not answer {} in time{}", options_.identity.rank,
                                       session_.address, what, gone));
}

Status StoreClient::put(std::string_view key, std::string_view value) {
  TRIREME_RETURN_IF_ERROR(check_key(key));
  TRIREME_RETURN_IF_ERROR(check_value(key, value));
  WireWriter writer;
  writer.bytes(key);
  writer.bytes(value);
  return call(MessageType::put, writer.take(), Deadline::after_ms(options_.request_timeout_ms),
              fmt::format("put \"{}\"", key))
      .status();
}

Result<std::string> StoreClient::get(std::string_view key, Deadline deadline) {
  TRIREME_RETURN_IF_ERROR(check_key(key));
  WireWriter writer;
  writer.bytes(key);
  return call(MessageType::get, writer.take(), deadline, fmt::format("the key \"{}\"", key));
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta) {
  TRIREME_RETURN_IF_ERROR(check_key(key));
  WireWriter writer;
  writer.bytes(key);
  writer.i64(delta);
  TRIREME_ASSIGN_OR_RETURN(const std::string reply,
                           call(MessageType::add, writer.take(), Deadline::after_ms(options_.request_timeout_ms),
                                fmt::format("add \"{}\"", key)));
  WireReader reader(reply);
  const std::int64_t sum = reader.i64();
  if (!reader.finished()) return data_loss("a malformed counter came from the store");
  return sum;
}

Result<std::vector<std::string>> StoreClient::exchange(std::string_view name, const std::vector<int>& members,
                                                       std::string_view value, Deadline deadline) {
  TRIREME_RETURN_IF_ERROR(check_key(name));
  TRIREME_RETURN_IF_ERROR(check_value(name, value));
  WireWriter writer;
  writer.bytes(name);
  writer.u32(static_cast<std::uint32_t>(members.size()));
  for (const int member : members) writer.u32(static_cast<std::uint32_t>(member));
  writer.bytes(value);
  TRIREME_ASSIGN_OR_RETURN(const std::string reply,
                           call(MessageType::exchange, writer.take(), deadline, fmt::format("exchange \"{}\"", name)));
  WireReader reader(reply);
  const std::uint32_t count = reader.u32();
  std::vector<std::string> values;
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) values.push_back(reader.string());
  if (!reader.finished() || values.size() != members.size()) {
    return data_loss(fmt::format("malformed values of exchange \"{}\" came from the store", name));
  }
  return values;
}

Result<std::vector<int>> StoreClient::agree_on_survivors(std::string_view name, const std::vector<int>& members,
                                                         Deadline deadline) {
  TRIREME_RETURN_IF_ERROR(check_key(name));
  WireWriter writer;
  writer.bytes(name);
  writer.u32(static_cast<std::uint32_t>(members.size()));
  for (const int member : members) writer.u32(static_cast<std::uint32_t>(member));
  TRIREME_ASSIGN_OR_RETURN(const std::string reply, call(MessageType::survivors, writer.take(), deadline,
                                                         fmt::format("the survivors' agreement \"{}\"", name)));
  WireReader reader(reply);
  const std::uint32_t count = reader.u32();
  std::vector<int> survivors;
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) survivors.push_back(static_cast<int>(reader.u32()));
  if (!reader.finished())
    return data_loss(fmt::format("a malformed list of survivors \"{}\" came from the store", name));
  return survivors;
}

void StoreClient::report_failure(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    // After a failure of the world its survivors still tell each other of their own.
    if (closed_.is_ok() && !stop_) {
      // The store decides which report is the first and tells all, this rank included.
      return submit_locked(MessageType::report_failure, 0, encode_failure(failure));
    }
  }
  raise(failure);
}

std::vector<std::optional<std::string>> StoreClient::collect_activities(Deadline deadline) {
  std::unique_lock lock(mutex_);
  Pending pending;
  pending.parts.resize(options_.peers.size());
  pending.parts_missing = options_.peers.size();
  if (stop_ || !closed_.is_ok()) return pending.parts;
  const std::uint64_t id = next_id_++;
  pending_.emplace(id, &pending);
  submit_locked(MessageType::activity_query, id, {});
  // A failure of the world does not end this: what the others do is then of interest.
  while (!pending.done && !stop_ && closed_.is_ok() && !deadline.expired()) wait_locked(lock, deadline);
  pending_.erase(id);
  if (!pending.done) submit_locked(MessageType::cancel, id, {});
  return std::move(pending.parts);
}

void StoreClient::notify_launcher(std::string_view topic, std::string_view value) {
  WireWriter writer;
  writer.bytes(topic);
  writer.bytes(value);
  const std::lock_guard lock(mutex_);
  if (!stop_ && closed_.is_ok()) submit_locked(MessageType::notify, 0, writer.take());
}

}  // namespace trireme::store
