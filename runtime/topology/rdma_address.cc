#include "runtime/topology/api/rdma_address.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <vector>

namespace trireme {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int common_prefix_bits(const RdmaGid& a, const RdmaGid& b) {
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    const auto differ = static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]);
    if (differ != 0) return static_cast<int>(i) * 8 + std::countl_zero(differ);
  }
  return 128;
}

// The PCI devices of a sysfs path, outermost first: "pci0000:80", "0000:80:01.0", ...
std::vector<std::string> pci_components(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = path.find("/pci");
  while (begin != std::string::npos && begin + 1 < path.size()) {
    const std::size_t end = std::min(path.find('/', begin + 1), path.size());
    std::string part = path.substr(begin + 1, end - begin - 1);
    const bool device = parts.empty() || (part.size() >= 12 && part[4] == ':' && part[7] == ':');
    if (!device) break;
    parts.push_back(std::move(part));
    begin = end == path.size() ? std::string::npos : end;
  }
  return parts;
}

}  // namespace

GidScope gid_scope(const RdmaGid& gid) {
  const auto& bytes = gid.bytes;
  if (std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; })) return GidScope::none;
  if (std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin())) {
    return bytes[12] == 169 && bytes[13] == 254 ? GidScope::link_local : GidScope::ipv4;
  }
  if (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) return GidScope::link_local;
  if ((bytes[0] & 0xfe) == 0xfc) return GidScope::ipv6_unique_local;
  return GidScope::ipv6_global;
}

std::optional<GidPair> choose_gids(std::span<const RdmaGid> a, std::span<const RdmaGid> b) {
  // Smaller is better, and the key of (a, b) is that of (b, a): both ends find one pair.
  using Key = std::tuple<int, int, int, std::uint32_t, std::uint32_t>;
  std::optional<GidPair> best;
  Key best_key{};
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      const GidScope scope = gid_scope(a[i]);
      if (a[i].type != b[j].type || scope != gid_scope(b[j]) || scope == GidScope::none) continue;
      const std::uint32_t sum = a[i].index + b[j].index;
      const Key key{scope == GidScope::link_local ? 1 : 0, a[i].type == GidType::roce_v1 ? 1 : 0,
                    static_cast<int>(scope) * 1000 - common_prefix_bits(a[i], b[j]), sum,
                    std::min(a[i].index, b[j].index)};
      // Of two pairs that mirror each other's indices the one with the smaller GID first wins.
      const bool better =
          !best || key < best_key ||
          (key == best_key && std::min(a[i].bytes, b[j].bytes) < std::min(a[best->a].bytes, b[best->b].bytes));
      if (!better) continue;
      best = GidPair{i, j};
      best_key = key;
    }
  }
  return best;
}

double rdma_link_bytes_per_second(unsigned active_width, unsigned active_speed) {
  int lanes = 0;
  switch (active_width) {
    case 1:
      lanes = 1;
      break;
    case 2:
      lanes = 4;
      break;
    case 4:
      lanes = 8;
      break;
    case 8:
      lanes = 12;
      break;
    case 16:
      lanes = 2;
      break;
    default:
      return 0;
  }
  double gigabits = 0;  // Of payload, per lane: SDR to QDR lose a fifth to 8b/10b coding.
  switch (active_speed) {
    case 1:
      gigabits = 2;
      break;
    case 2:
      gigabits = 4;
      break;
    case 4:
      gigabits = 8;
      break;
    case 8:
      gigabits = 10;
      break;
    case 16:
      gigabits = 14;
      break;
    case 32:
      gigabits = 25;
      break;
    case 64:
      gigabits = 50;
      break;
    case 128:
      gigabits = 100;
      break;
    default:
      return 0;
  }
  return lanes * gigabits * 1e9 / 8;
}

std::optional<int> pci_steps(const std::string& a, const std::string& b) {
  const std::vector<std::string> left = pci_components(a);
  const std::vector<std::string> right = pci_components(b);
  if (left.empty() || right.empty() || left.front() != right.front()) return std::nullopt;
  std::size_t common = 0;
  while (common < left.size() && common < right.size() && left[common] == right[common]) ++common;
  return static_cast<int>(left.size() - common + right.size() - common);
}

}  // namespace trireme
