// Where the two ends of a channel find each other: sends hellos until they are answered,
// answers those of peers, and joins queue pairs when both ends are open.
//
// A peer may open its end much later: it says "heard" until then, so only silence counts
// as failure. Hellos are sent over the channel's rails in turn.
// Thread safety: introduce(), next_key() and add() from any thread; the rest runs on the service thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/api/handshake.h"
#include "runtime/transport/api/transport.h"
#include "runtime/transport/verbs/verbs_link.h"
#include "runtime/transport/verbs/verbs_mailbox.h"

namespace trireme {

// A way for datagrams to a peer: one rail of the channel.
struct VerbsPostRoute {
  std::shared_ptr<VerbsMailbox> mailbox;
  RdmaGid own_gid;
  VerbsPortInfo peer;
  RdmaGid peer_gid;
};

// How to write to a peer.
struct VerbsContact {
  std::vector<VerbsPostRoute> routes;  // At least one.
  std::uint32_t mailbox_key = 0;       // The peer's.
  std::string token;                   // The peer's.
  std::string peer;                    // "rank 3 (node1, pid 4711)", for messages.
};

class VerbsMeeting : public std::enable_shared_from_this<VerbsMeeting> {
 public:
  VerbsMeeting(std::shared_ptr<World> world, std::shared_ptr<Reactor> reactor, std::shared_ptr<PeerWatch> peers,
               std::string own_token);
  // Before the first datagram from `peer`, and before add().
  void introduce(int peer, VerbsContact contact);
  // The key of the next opening of `context` towards `peer`: call once per opening.
  ChannelKey next_key(int peer, std::uint64_t context);
  void add(const ChannelKey& key, std::shared_ptr<VerbsLink> link);
  // A datagram has come; what is no member's is dropped.
  void deliver(std::string_view datagram);

 private:
  struct Meeting {
    std::shared_ptr<VerbsLink> link;  // Until it is joined.
    std::weak_ptr<VerbsLink> joined;
    std::uint64_t attempt = 0;
    Deadline give_up_at = Deadline::never();
    std::string answer;  // To repeat.
  };

  void begin(const ChannelKey& key, std::shared_ptr<VerbsLink> link);
  void send_hello(const ChannelKey& key);
  void take_hello(const VerbsHello& hello);
  void take_answer(const VerbsHello& answer);
  void answer(const ChannelKey& key, Meeting& meeting, const VerbsHello& hello);
  void join(Meeting& meeting, const VerbsHello& peer);
  void send(const ChannelKey& key, std::uint64_t attempt, const std::string& datagram);
  void forget_the_joined();
  std::string encode_own(const ChannelKey& key, const VerbsLink* link, bool answers);
  Status silence(int peer);
  bool opened(const ChannelKey& key);
  std::shared_ptr<const VerbsContact> contact(int peer);

  std::shared_ptr<World> world_;
  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<PeerWatch> peers_;
  std::string token_;
  std::mutex mutex_;  // Guards the next two.
  std::map<int, std::shared_ptr<const VerbsContact>> contacts_;
  std::map<std::pair<int, std::uint64_t>, std::uint32_t> opened_;
  std::map<ChannelKey, Meeting> meetings_;
  std::map<ChannelKey, VerbsHello> early_;  // Hellos for channels that are not open yet.
  std::size_t sweep_at_ = 64;
};

}  // namespace trireme
