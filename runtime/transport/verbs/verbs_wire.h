// What ranks tell each other about their RDMA devices (docs/formats/verbs.md): the
// advertisement every member of the job knows from the start, and the datagrams by which
// two of them join the queue pairs of one channel.
//
//   lower rank  -> higher rank   hello: channel, queue pairs, ring, proof
//   higher rank -> lower rank    answer: the same of its own; or nothing but "heard", when
//                                its channel is not open yet; or a refusal with its reason
//
// A datagram can be lost: the hello is repeated until the answer comes, and repeats are
// answered alike. The key of a proof is the receiver's token, which only members know.
// Thread safety: free functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/topology/api/rdma_address.h"
#include "runtime/transport/api/handshake.h"

namespace trireme {

inline constexpr std::size_t kVerbsTokenBytes = 32;
inline constexpr std::size_t kVerbsMostRails = 4;
// The smallest MTU there is holds every datagram.
inline constexpr std::size_t kVerbsDatagramBytes = 256;

// One port of one device.
struct VerbsPortInfo {
  std::string device;  // "mlx5_0"
  std::uint8_t port = 1;
  bool ethernet = false;         // RoCE; otherwise InfiniBand.
  std::uint16_t lid = 0;         // InfiniBand's local address.
  std::uint8_t mtu = 0;          // As ibv_mtu encodes it.
  std::uint32_t mailbox_qp = 0;  // Where hellos go.
  double bytes_per_second = 0;
  bool software = false;  // Soft-RoCE: works anywhere, faster than nothing.
  std::vector<RdmaGid> gids;
  std::string name() const { return device + " port " + std::to_string(port); }
};

struct VerbsEndpoint {
  std::string token;
  std::uint32_t mailbox_key = 0;
  std::uint8_t most_rails = kVerbsMostRails;
  std::vector<VerbsPortInfo> ports;  // The best for this rank first.

  std::string encode() const;
  static Result<VerbsEndpoint> decode(std::string_view text);
};

// A port at each end that carry queue pairs between them.
struct VerbsRailChoice {
  std::size_t port_a = 0;
  std::size_t port_b = 0;
  GidPair gids;
  std::uint8_t mtu = 0;
  double bytes_per_second = 0;
  bool operator==(const VerbsRailChoice&) const = default;
};
// The rails between two ranks, at most `most`, in the same order whichever side asks (its
// choices mirrored): each port is used once, ports of one subnet go together, and those
// early in both lists come first. A pair of different subnets counts only when there is
// none of one, since networks with rails do not join them. Empty when no two ports can
// reach each other; `why`, unless null, then says so.
std::vector<VerbsRailChoice> choose_verbs_rails(const std::vector<VerbsPortInfo>& a,
                                                const std::vector<VerbsPortInfo>& b, std::size_t most,
                                                std::string* why = nullptr);

struct VerbsHello {
  struct Rail {
    std::uint32_t queue_pair = 0;
    std::uint32_t first_packet = 0;
    std::uint32_t ring_key = 0;  // The remote key of the ring on this rail's device.
    bool operator==(const Rail&) const = default;
  };
  bool answer = false;
  ChannelHello channel;  // Always from the sender's side.
  std::uint64_t ring_address = 0;
  std::uint64_t ring_bytes = 0;
  std::vector<Rail> rails;
  std::string refusal;  // Not empty: an answer that there will be no channel.
  bool operator==(const VerbsHello&) const = default;
  // An answer that only says that the hello came.
  bool heard() const { return answer && refusal.empty() && rails.empty(); }

  // `token` is the receiver's. REQUIRES: a refusal of at most 64 bytes.
  std::string encode(std::string_view token) const;
  // Errors: data_loss when it is no datagram of this version or holds impossible values;
  // permission_denied when the proof is wrong.
  static Result<VerbsHello> decode(std::string_view token, std::string_view datagram);
};

}  // namespace trireme
