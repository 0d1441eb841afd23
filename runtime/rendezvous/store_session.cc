#include "runtime/rendezvous/store_session.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fmt/core.h>

#include <trireme/base/wire.h>

#include "runtime/platform/api/process.h"
#include "runtime/rendezvous/socket_options.h"

namespace trireme::store {
namespace {

constexpr std::uint64_t kProbeConnectMs = 500;     // Per address, when there are several.
constexpr std::uint64_t kProbeHandshakeMs = 2000;  // Likewise.
constexpr std::uint64_t kRoundPauseMs = 20;
constexpr std::uint64_t kLastWordsMs = 1000;

Result<Frame> next_frame(StoreSession& session, Deadline deadline) {
  while (true) {
    TRIREME_ASSIGN_OR_RETURN(std::optional<Frame> frame, session.reader.next());
    if (frame) return std::move(*frame);
    char buffer[16 * 1024];
    TRIREME_ASSIGN_OR_RETURN(const std::size_t got, session.socket.receive_some(buffer, sizeof(buffer)));
    session.reader.append(buffer, got);
    if (got > 0) continue;
    pollfd entry{session.socket.fd(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, deadline.remaining_ms());
    if (ready < 0 && errno != EINTR) return errno_status(errno, "wait for the store at " + session.address);
    if (ready == 0 && deadline.expired()) {
      return deadline_exceeded("the store at " + session.address + " did not answer in time");
    }
  }
}

Status send_frame(StoreSession& session, MessageType type, std::uint64_t id, std::string_view payload,
                  Deadline deadline) {
  const std::string frame = encode_frame(type, id, payload);
  return session.socket.send_all(frame.data(), frame.size(), deadline);
}

Hello make_hello(const ClientIdentity& identity, bool resume) {
  Hello hello;
  hello.job_id = identity.job_id;
  hello.world_size = static_cast<std::uint32_t>(identity.size);
  hello.epoch = identity.epoch;
  hello.rank = static_cast<std::uint32_t>(identity.rank);
  hello.resume = resume;
  hello.nonce = random_hex(kNonceBytes / 2);
  hello.host = identity.host.substr(0, kMaxTextBytes);
  hello.host_identity = identity.host_identity;
  hello.pid = identity.pid;
  return hello;
}

SessionAttempt failed(Status status, bool decided) {
  SessionAttempt attempt;
  attempt.status = std::move(status);
  attempt.decided = decided;
  return attempt;
}

// The next frame, which should have `type`; a refusal is decided and comes back as its Status.
SessionAttempt expect(StoreSession& session, MessageType type, Deadline deadline, Frame& frame) {
  Result<Frame> received = next_frame(session, deadline);
  if (!received.is_ok()) {
    // Bytes that are no frames: some other service listens there.
    const bool junk = received.status().code() == StatusCode::invalid_argument;
    if (!junk) return failed(received.status(), false);
    return failed(
        unavailable("what listens at " + session.address + " is not a Trireme store: " + received.status().message()),
        true);
  }
  frame = std::move(*received);
  if (frame.type == type) return {};
  if (frame.type == MessageType::refused) return failed(decode_status(frame.payload), true);
  return failed(
      unavailable(fmt::format("what listens at {} is not a Trireme store: frame type {} where {} was expected",
                              session.address, static_cast<int>(frame.type), to_string(type))),
      true);
}

SessionAttempt shake_hands(StoreSession& session, const ClientIdentity& identity, bool resume, Deadline deadline) {
  const Hello hello = make_hello(identity, resume);
  const std::string hello_payload = hello.encode();
  std::string opening(kPreamble);
  opening += encode_frame(MessageType::hello, 0, hello_payload);
  if (Status sent = session.socket.send_all(opening.data(), opening.size(), deadline); !sent.is_ok()) {
    return failed(sent, false);
  }
  Frame frame;
  SessionAttempt step = expect(session, MessageType::challenge, deadline, frame);
  if (!step.status.is_ok()) return step;
  WireReader challenge(frame.payload);
  const std::string store_nonce = challenge.string();
  const std::string_view store_proof = challenge.bytes();
  const std::string expected = make_proof(identity.secret, ProofRole::store, hello.nonce, store_nonce, hello_payload);
  if (!challenge.finished() || !equal_in_constant_time(store_proof, expected)) {
    return failed(permission_denied(fmt::format("wrong secret: the store at {} and this process do not hold the same "
                                                "secret of job \"{}\"",
                                                session.address, identity.job_id)),
                  true);
  }
  WireWriter proof;
  proof.bytes(make_proof(identity.secret, ProofRole::client, hello.nonce, store_nonce, hello_payload));
  if (Status sent = send_frame(session, MessageType::proof, 0, proof.data(), deadline); !sent.is_ok()) {
    return failed(sent, false);
  }
  step = expect(session, MessageType::welcome, deadline, frame);
  if (!step.status.is_ok()) return step;
  WireReader welcome(frame.payload);
  session.host_rank = static_cast<int>(welcome.i64());
  if (!welcome.finished() || session.host_rank < -1 || session.host_rank >= identity.size) {
    return failed(data_loss("a malformed welcome came from the store at " + session.address), true);
  }
  return {};
}

}  // namespace

namespace {

SessionAttempt begin_session(Socket socket, const std::string& address, const ClientIdentity& identity, bool resume,
                             Deadline answer_by) {
  if (identity.secret.empty() && address.rfind("unix:", 0) == 0 && !is_same_user(socket.fd())) {
    return failed(permission_denied("the store at " + address + " belongs to another user"), true);
  }
  enable_keepalive(socket.fd());
  StoreSession session;
  session.socket = std::move(socket);
  session.address = address;
  SessionAttempt attempt = shake_hands(session, identity, resume, answer_by);
  if (attempt.status.is_ok()) attempt.session = std::move(session);
  return attempt;
}

// "a:1 to a:15: refused; a:16: ...": neighbours with the same outcome are told once.
std::string tell(const std::vector<std::string>& addresses, const std::vector<std::string>& outcomes) {
  std::string text;
  for (std::size_t i = 0; i < outcomes.size();) {
    std::size_t end = i + 1;
    while (end < outcomes.size() && outcomes[end] == outcomes[i]) ++end;
    const std::string more = end - i > 1 ? fmt::format(" to {}", addresses[end - 1]) : "";
    text += fmt::format("{}{}{}: {}", text.empty() ? "" : "; ", addresses[i], more, outcomes[i]);
    i = end;
  }
  return text;
}

// What an attempt of several means: nullopt when the next address may be the right one.
std::optional<Result<StoreSession>> verdict(SessionAttempt& attempt, const ClientIdentity& identity, bool several) {
  if (attempt.status.is_ok()) return Result<StoreSession>(std::move(attempt.session));
  const StatusCode code = attempt.status.code();
  const bool elsewhere = several && (code == StatusCode::not_found || code == StatusCode::unavailable ||
                                     code == StatusCode::invalid_argument);
  if (!attempt.decided || elsewhere) return std::nullopt;
  return Result<StoreSession>(attempt.status.with_context(fmt::format("rank {}", identity.rank)));
}

// Several addresses that need no resolver: all at once, so that those that swallow
// packets cost nothing. The first in the list that answers as our store does is taken.
std::optional<Result<StoreSession>> try_numeric(const std::vector<std::string>& addresses,
                                                const ClientIdentity& identity, Deadline deadline,
                                                std::vector<std::string>& outcomes) {
  std::vector<SocketAddress> targets;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (!SocketAddress{addresses[i]}.is_numeric()) continue;
    targets.push_back({addresses[i]});
    places.push_back(i);
  }
  if (targets.empty()) return std::nullopt;
  std::vector<Result<Socket>> sockets = connect_each(targets, deadline.earlier(Deadline::after_ms(kProbeConnectMs)));
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    SessionAttempt attempt;
    if (sockets[i].is_ok()) {
      const Deadline answer_by = deadline.earlier(Deadline::after_ms(kProbeHandshakeMs));
      attempt = begin_session(std::move(sockets[i]).value(), targets[i].text, identity, false, answer_by);
    } else {
      attempt = failed(sockets[i].status(), false);
    }
    if (auto found = verdict(attempt, identity, true)) return found;
    outcomes[places[i]] = attempt.status.message();
  }
  return std::nullopt;
}

// The others, in turn.
std::optional<Result<StoreSession>> try_named(const std::vector<std::string>& addresses, const ClientIdentity& identity,
                                              Deadline deadline, std::vector<std::string>& outcomes) {
  const bool several = addresses.size() > 1;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (several && SocketAddress{addresses[i]}.is_numeric()) continue;
    const Deadline connect_by = several ? deadline.earlier(Deadline::after_ms(kProbeConnectMs)) : deadline;
    const Deadline answer_by = several ? deadline.earlier(Deadline::after_ms(kProbeHandshakeMs)) : deadline;
    SessionAttempt attempt = try_session(addresses[i], identity, false, connect_by, answer_by);
    if (auto found = verdict(attempt, identity, several)) return found;
    outcomes[i] = attempt.status.message();
  }
  return std::nullopt;
}

}  // namespace

SessionAttempt try_session(const std::string& address, const ClientIdentity& identity, bool resume, Deadline connect_by,
                           Deadline answer_by) {
  Result<SocketAddress> parsed = SocketAddress::parse(address);
  if (!parsed.is_ok()) return failed(parsed.status(), true);
  Result<Socket> socket = Socket::connect(*parsed, connect_by);
  if (!socket.is_ok()) return failed(socket.status(), false);
  return begin_session(std::move(*socket), address, identity, resume, answer_by);
}

Result<StoreSession> open_session(const std::vector<std::string>& addresses, const ClientIdentity& identity,
                                  Deadline deadline) {
  TRIREME_CHECK(!addresses.empty(), "a store has an address");
  std::vector<std::string> outcomes(addresses.size(), "not tried");
  while (true) {
    if (addresses.size() > 1) {
      if (auto found = try_numeric(addresses, identity, deadline, outcomes)) return std::move(*found);
    }
    if (auto found = try_named(addresses, identity, deadline, outcomes)) return std::move(*found);
    if (deadline.expired()) break;
    system_clock().sleep_ns(kRoundPauseMs * 1'000'000);
  }
  return deadline_exceeded(fmt::format("rank {} of {} could not reach the store of job \"{}\" in time: {}",
                                       identity.rank, identity.size, identity.job_id, tell(addresses, outcomes)));
}

Result<std::vector<PeerInfo>> wait_for_table(StoreSession& session, const ClientIdentity& identity, Deadline deadline) {
  bool gave_up = false;
  while (true) {
    Result<Frame> frame = next_frame(session, deadline);
    if (!frame.is_ok()) {
      if (frame.status().code() != StatusCode::deadline_exceeded || gave_up) {
        return frame.status().with_context(
            fmt::format("rank {} waited for all {} ranks to join", identity.rank, identity.size));
      }
      gave_up = true;
      deadline = Deadline::after_ms(kLastWordsMs);
      TRIREME_RETURN_IF_ERROR(send_frame(session, MessageType::leave, 1, {}, deadline));
      continue;
    }
    if (frame->type == MessageType::failure) {
      TRIREME_ASSIGN_OR_RETURN(const Failure failure, decode_failure(frame->payload));
      return failure.status;
    }
    if (frame->type == MessageType::closing) {
      return unavailable(
          fmt::format("the store at {} was closed before all {} ranks had joined", session.address, identity.size));
    }
    // A table that crosses our giving up is too late: the store has us down as gone.
    if (frame->type != MessageType::table || gave_up) continue;
    TRIREME_ASSIGN_OR_RETURN(std::vector<PeerInfo> peers, decode_table(frame->payload));
    if (peers.size() != static_cast<std::size_t>(identity.size)) {
      return data_loss(
          fmt::format("the store's table has {} ranks where the world has {}", peers.size(), identity.size));
    }
    return peers;
  }
}

}  // namespace trireme::store
