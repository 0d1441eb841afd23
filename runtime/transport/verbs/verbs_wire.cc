#include "runtime/transport/verbs/verbs_wire.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include <trireme/base/wire.h>

#include "runtime/transport/verbs/verbs_flow.h"

namespace trireme {
namespace {

constexpr std::string_view kHelloMagic = "TRIVRBH1";
constexpr std::string_view kAnswerMagic = "TRIVRBA1";
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kLongestRefusal = 64;
constexpr std::size_t kMostGids = 16;
constexpr std::size_t kMostPorts = 64;

void write_port(WireWriter& writer, const VerbsPortInfo& port) {
  writer.bytes(port.device);
  writer.u8(port.port);
  writer.u8(static_cast<std::uint8_t>((port.ethernet ? 1 : 0) | (port.software ? 2 : 0)));
  writer.u16(port.lid);
  writer.u8(port.mtu);
  writer.u32(port.mailbox_qp);
  writer.f64(port.bytes_per_second);
  writer.u32(static_cast<std::uint32_t>(port.gids.size()));
  for (const RdmaGid& gid : port.gids) {
    writer.bytes({reinterpret_cast<const char*>(gid.bytes.data()), gid.bytes.size()});
    writer.u8(static_cast<std::uint8_t>(gid.type));
    writer.u32(gid.index);
  }
}

bool read_port(WireReader& reader, VerbsPortInfo& port) {
  port.device = reader.string();
  port.port = reader.u8();
  const std::uint8_t flags = reader.u8();
  port.ethernet = (flags & 1) != 0;
  port.software = (flags & 2) != 0;
  port.lid = reader.u16();
  port.mtu = reader.u8();
  port.mailbox_qp = reader.u32();
  port.bytes_per_second = reader.f64();
  const std::uint32_t count = reader.u32();
  if (count > kMostGids || port.mtu < 1 || port.mtu > 5) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    RdmaGid gid;
    const std::string_view bytes = reader.bytes();
    const std::uint8_t type = reader.u8();
    gid.index = reader.u32();
    if (reader.failed() || bytes.size() != gid.bytes.size() || type > 2) return false;
    std::copy(bytes.begin(), bytes.end(), gid.bytes.begin());
    gid.type = static_cast<GidType>(type);
    port.gids.push_back(gid);
  }
  return !reader.failed();
}

// A possible rail with what it is judged by; the key is that of the mirrored rail.
struct RailCandidate {
  VerbsRailChoice rail;
  bool other_subnet = false;
  std::tuple<std::size_t, std::array<std::uint8_t, 16>, std::array<std::uint8_t, 16>> key;
};

// Prefixes as they are usual: /24 of IPv4, /64 of IPv6 and InfiniBand.
bool same_subnet(const RdmaGid& a, const RdmaGid& b) {
  const std::ptrdiff_t bytes = gid_scope(a) == GidScope::ipv4 ? 15 : 8;
  return std::equal(a.bytes.begin(), a.bytes.begin() + bytes, b.bytes.begin());
}

std::optional<RailCandidate> pair_ports(const std::vector<VerbsPortInfo>& a, std::size_t i,
                                        const std::vector<VerbsPortInfo>& b, std::size_t j) {
  if (a[i].ethernet != b[j].ethernet) return std::nullopt;
  const std::optional<GidPair> gids = choose_gids(a[i].gids, b[j].gids);
  if (!gids) return std::nullopt;
  const RdmaGid& gid_a = a[i].gids[gids->a];
  const RdmaGid& gid_b = b[j].gids[gids->b];
  return RailCandidate{
      {i, j, *gids, std::min(a[i].mtu, b[j].mtu), std::min(a[i].bytes_per_second, b[j].bytes_per_second)},
      !same_subnet(gid_a, gid_b),
      {i + j, std::min(gid_a.bytes, gid_b.bytes), std::max(gid_a.bytes, gid_b.bytes)}};
}

std::string why_no_rail(const std::vector<VerbsPortInfo>& a, const std::vector<VerbsPortInfo>& b) {
  if (a.front().ethernet != b.front().ethernet) return "one end has RoCE and the other InfiniBand devices";
  return "no GID of one type and kind at both ends (" + a.front().name() + ", " + b.front().name() +
         "); give both network interfaces IPv4 addresses";
}

}  // namespace

std::string VerbsEndpoint::encode() const {
  WireWriter writer;
  writer.bytes(token);
  writer.u32(mailbox_key);
  writer.u8(most_rails);
  writer.u32(static_cast<std::uint32_t>(ports.size()));
  for (const VerbsPortInfo& port : ports) write_port(writer, port);
  return writer.take();
}

Result<VerbsEndpoint> VerbsEndpoint::decode(std::string_view text) {
  WireReader reader(text);
  VerbsEndpoint endpoint;
  endpoint.token = reader.string();
  endpoint.mailbox_key = reader.u32();
  endpoint.most_rails = reader.u8();
  const std::uint32_t count = reader.u32();
  bool good = count >= 1 && count <= kMostPorts && endpoint.token.size() == kVerbsTokenBytes;
  for (std::uint32_t i = 0; good && i < count; ++i) {
    endpoint.ports.emplace_back();
    good = read_port(reader, endpoint.ports.back());
  }
  if (!good || !reader.finished()) return data_loss("verbs transport: malformed advertisement");
  return endpoint;
}

std::vector<VerbsRailChoice> choose_verbs_rails(const std::vector<VerbsPortInfo>& a,
                                                const std::vector<VerbsPortInfo>& b, std::size_t most,
                                                std::string* why) {
  if (a.empty() || b.empty()) {
    if (why != nullptr) *why = "no RDMA port";
    return {};
  }
  std::vector<RailCandidate> candidates;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (auto candidate = pair_ports(a, i, b, j)) candidates.push_back(*candidate);
    }
  }
  if (candidates.empty() && why != nullptr) *why = why_no_rail(a, b);
  std::sort(candidates.begin(), candidates.end(), [](const RailCandidate& x, const RailCandidate& y) {
    return std::tie(x.other_subnet, x.key) < std::tie(y.other_subnet, y.key);
  });
  std::vector<VerbsRailChoice> rails;
  for (const RailCandidate& candidate : candidates) {
    const VerbsRailChoice& rail = candidate.rail;
    const bool taken = std::any_of(rails.begin(), rails.end(), [&](const VerbsRailChoice& other) {
      return other.port_a == rail.port_a || other.port_b == rail.port_b;
    });
    if (taken || candidate.other_subnet != candidates.front().other_subnet) continue;
    if (rails.size() < std::min(most, kVerbsMostRails)) rails.push_back(rail);
  }
  return rails;
}

std::string VerbsHello::encode(std::string_view token) const {
  WireWriter writer;
  writer.bytes(channel.encode());
  writer.u64(ring_address);
  writer.u64(ring_bytes);
  writer.u8(static_cast<std::uint8_t>(rails.size()));
  for (const Rail& rail : rails) {
    writer.u32(rail.queue_pair);
    writer.u32(rail.first_packet);
    writer.u32(rail.ring_key);
  }
  writer.bytes(std::string_view(refusal).substr(0, kLongestRefusal));
  const std::string body = std::string(answer ? kAnswerMagic : kHelloMagic) + writer.take();
  std::string datagram = body + proof(token, body);
  TRIREME_CHECK(datagram.size() <= kVerbsDatagramBytes, "a datagram of the verbs transport is too long");
  return datagram;
}

Result<VerbsHello> VerbsHello::decode(std::string_view token, std::string_view datagram) {
  const auto malformed = [] { return data_loss("verbs transport: what came is no hello of this version"); };
  if (datagram.size() < kHelloMagic.size() + kProofBytes || datagram.size() > kVerbsDatagramBytes) return malformed();
  const std::string_view body = datagram.substr(0, datagram.size() - kProofBytes);
  VerbsHello hello;
  hello.answer = body.starts_with(kAnswerMagic);
  if (!hello.answer && !body.starts_with(kHelloMagic)) return malformed();
  if (!equal_secrets(datagram.substr(body.size()), proof(token, body))) {
    return permission_denied("verbs transport: a datagram whose proof is wrong: the sender is no member of this job");
  }
  WireReader reader(body.substr(kHelloMagic.size()));
  TRIREME_ASSIGN_OR_RETURN(hello.channel, ChannelHello::decode(reader.bytes()));
  hello.ring_address = reader.u64();
  hello.ring_bytes = reader.u64();
  const std::uint8_t count = reader.u8();
  for (std::uint8_t i = 0; i < count && count <= kVerbsMostRails; ++i) {
    Rail& rail = hello.rails.emplace_back();
    rail.queue_pair = reader.u32();
    rail.first_packet = reader.u32();
    rail.ring_key = reader.u32();
  }
  hello.refusal = reader.string();
  const bool joins = !hello.heard() && !(hello.answer && !hello.refusal.empty());
  const bool ring_good = std::has_single_bit(hello.ring_bytes) && hello.ring_bytes <= kVerbsLargestRing;
  if (!reader.finished() || (joins && (!ring_good || hello.rails.empty()))) return malformed();
  return hello;
}

}  // namespace trireme
