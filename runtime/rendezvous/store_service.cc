// The service thread of a StoreClient.
#include <poll.h>

#include <cerrno>

#include <fmt/core.h>

#include <trireme/base/units.h>
#include <trireme/base/wire.h>

#include "runtime/rendezvous/store_client.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme::store {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::uint64_t kAskAgainMs = 200;
constexpr int kLastReads = 64;

}  // namespace

void StoreClient::loop() {
  while (true) {
    take_outgoing();
    Status alive = output_.flush(session_.socket);
    pollfd entries[2] = {{session_.socket.fd(), static_cast<short>(POLLIN | (output_.empty() ? 0 : POLLOUT)), 0},
                         {wake_.fd(), POLLIN, 0}};
    if (alive.is_ok()) {
      const int ready = ::poll(entries, 2, -1);
      TRIREME_CHECK(ready >= 0 || errno == EINTR, "poll on descriptors of ours");
      if (ready > 0 && entries[1].revents != 0) wake_.clear();
      if (ready > 0 && (entries[0].revents & ~POLLOUT) != 0) alive = receive();
    } else {
      // The store closed, but what it said before may say why.
      for (int reads = 0; reads < kLastReads && receive().is_ok(); ++reads) {
      }
    }
    if (!alive.is_ok()) {
      on_connection_lost(alive);
      break;
    }
    const std::lock_guard lock(mutex_);
    if (stop_ || !closed_.is_ok()) break;
  }
  session_.socket.close();
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void StoreClient::take_outgoing() {
  std::vector<Outgoing> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(outgoing_);
  }
  for (const Outgoing& frame : taken) output_.push(frame.type, frame.id, frame.payload);
}

// Reads what is there, a buffer at most. Errors: the end of the connection, or a stream
// that makes no sense.
Status StoreClient::receive() {
  char buffer[kReadBytes];
  TRIREME_ASSIGN_OR_RETURN(const std::size_t got, session_.socket.receive_some(buffer, sizeof(buffer)));
  session_.reader.append(buffer, got);
  while (true) {
    TRIREME_ASSIGN_OR_RETURN(std::optional<Frame> frame, session_.reader.next());
    if (!frame) return Status::ok();
    on_frame(*frame);
  }
}

void StoreClient::on_frame(Frame& frame) {
  switch (frame.type) {
    case MessageType::reply:
      return on_reply(frame);
    case MessageType::activity_parts:
      return on_parts(frame);
    case MessageType::activity_request:
      return answer_activity(frame.id);
    case MessageType::departed:
      return on_departed(frame);
    case MessageType::failure: {
      const Result<Failure> failure = decode_failure(frame.payload);
      if (failure.is_ok()) raise(*failure);
      return;
    }
    case MessageType::closing: {
      WireReader reader(frame.payload);
      const std::lock_guard lock(mutex_);
      const std::string host =
          session_.host_rank < 0 ? "" : options_.peers[session_.host_rank].to_string() + ", which hosts it, has left: ";
      closed_ =
          unavailable(fmt::format("the job's store at {} is closed: {}{}", session_.address, host, reader.bytes()));
      changed_.notify_all();
      return;
    }
    default:
      TRIREME_LOG_WARN("store", "ignores a frame of type {} from the store", static_cast<int>(frame.type));
  }
}

void StoreClient::on_reply(Frame& frame) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(frame.id);
  if (found == pending_.end()) return;  // Its caller gave up.
  found->second->reply = std::move(frame.payload);
  found->second->done = true;
  changed_.notify_all();
}

void StoreClient::on_parts(const Frame& frame) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(frame.id);
  if (found == pending_.end()) return;  // Its caller gave up.
  Pending& pending = *found->second;
  WireReader reader(frame.payload);
  const std::uint32_t count = reader.u32();
  for (std::uint32_t i = 0; i < count && pending.parts_missing > 0; ++i) {
    const std::uint32_t rank = reader.u32();
    const bool known = reader.u8() == 1;
    std::string text = reader.string();
    if (reader.failed() || rank >= pending.parts.size()) return;
    if (known) pending.parts[rank] = std::move(text);
    --pending.parts_missing;
  }
  if (pending.parts_missing > 0) return;
  pending.done = true;
  changed_.notify_all();
}

void StoreClient::on_departed(const Frame& frame) {
  WireReader reader(frame.payload);
  const std::uint32_t rank = reader.u32();
  const std::lock_guard lock(mutex_);
  if (reader.finished() && rank < options_.peers.size()) departed_.insert(static_cast<int>(rank));
}

void StoreClient::answer_activity(std::uint64_t query) {
  WireWriter writer;
  writer.bytes(signals_->activity_sources->call_joined(std::string()));
  output_.push(MessageType::activity_answer, query, std::make_shared<const std::string>(writer.take()));
}

void StoreClient::raise(const Failure& failure) {
  signals_->failures.raise(failure);
  const std::lock_guard lock(mutex_);  // A waiter is either before its check or asleep.
  changed_.notify_all();
}

void StoreClient::on_connection_lost(const Status& how) {
  {
    const std::lock_guard lock(mutex_);
    if (leaving_ || stop_ || !closed_.is_ok()) return;
  }
  if (signals_->failures.first(0)) return;
  Failure failure;
  if (session_.host_rank >= 0) {
    failure.culprit_rank = session_.host_rank;
    failure.status = peer_dead(options_.peers[session_.host_rank].to_string() +
                               " died: it hosted the job's store, and the connection to it ended");
  } else {
    failure.status = ask_what_happened(how);
    const std::lock_guard lock(mutex_);
    if (leaving_ || stop_) return;
  }
  TRIREME_LOG_WARN("store", "{}", failure.status.to_string());
  raise(failure);
}

// The coordinator's store broke the connection: it knows better than we do why, if it is
// still there.
Status StoreClient::ask_what_happened(const Status& how) {
  const Deadline grace = Deadline::after_ms(options_.coordinator_grace_ms);
  TRIREME_LOG_INFO("store", "lost the connection to the store at {} ({}); asking again for {}", session_.address,
                   how.message(), format_duration_ms(options_.coordinator_grace_ms));
  do {
    const Deadline soon = grace.earlier(Deadline::after_ms(kAskAgainMs));
    const SessionAttempt attempt = try_session(session_.address, options_.identity, true, soon, grace);
    if (attempt.decided) {
      return attempt.status.with_context("the store at " + session_.address + " ended the connection");
    }
    const std::lock_guard lock(mutex_);
    if (leaving_ || stop_) break;
  } while (!grace.expired());
  return unavailable(
      fmt::format("the job's coordinator is gone: the connection to its store at {} ended ({}) and nobody "
                  "answered there for {} (TRIREME_COORDINATOR_GRACE_MS)",
                  session_.address, how.message(), format_duration_ms(options_.coordinator_grace_ms)));
}

}  // namespace trireme::store
