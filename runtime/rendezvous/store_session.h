// The client's side of the handshake: from an address to a connection that has proved
// itself and been proved to. Blocking, on the thread that joins; afterwards the store
// client's service thread takes the connection over.
// Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>

#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/protocol.h"

namespace trireme::store {

struct ClientIdentity {
  int rank = 0;
  int size = 1;
  std::int64_t epoch = 1;
  std::string job_id;
  std::string secret;
  std::string host;
  std::string host_identity;
  std::int64_t pid = 0;
};

struct StoreSession {
  Socket socket;
  FrameReader reader{kMaxReplyBytes, false};  // May hold frames that came early.
  std::string address;
  int host_rank = -1;  // The rank whose process hosts the store, or -1.
};

// What one attempt at one address came to.
struct SessionAttempt {
  Status status;
  bool decided = false;  // The store answered by name: trying again changes nothing.
  StoreSession session;  // When status is ok.
};
SessionAttempt try_session(const std::string& address, const ClientIdentity& identity, bool resume, Deadline connect_by,
                           Deadline answer_by);

// Tries the addresses until the deadline: numeric ones all at once, then names in turn.
// Among several, those that do not answer, are no store, or are the store of another job
// are passed over.
// Errors: the store's refusal; deadline_exceeded saying what each address did.
Result<StoreSession> open_session(const std::vector<std::string>& addresses, const ClientIdentity& identity,
                                  Deadline deadline);

// Waits until all ranks have joined. At the deadline gives up in the name of this rank,
// so that all ranks learn, in the same words, who was missing.
Result<std::vector<PeerInfo>> wait_for_table(StoreSession& session, const ClientIdentity& identity, Deadline deadline);

}  // namespace trireme::store
