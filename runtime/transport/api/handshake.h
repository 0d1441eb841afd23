// What two ranks say to each other before a channel carries bytes, whatever the
// transport: who I am, which job, which channel. A token proves it: every endpoint makes
// a random one and tells it to the members through the World, so that whoever knows it
// is a member of the job.
// Thread safety: free functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

namespace trireme {

// Names one channel at both of its ends: the ordinal counts the openings of the same
// context by the same pair, so that a reopened channel never meets an older one.
struct ChannelKey {
  int peer = 0;
  std::uint64_t context = 0;
  std::uint32_t ordinal = 0;
  auto operator<=>(const ChannelKey&) const = default;
};

struct ChannelHello {
  std::uint64_t job_hash = 0;
  std::uint32_t from_rank = 0;
  std::uint32_t to_rank = 0;
  std::uint64_t context = 0;
  std::uint32_t ordinal = 0;
  bool operator==(const ChannelHello&) const = default;

  // The hello rank world.rank() sends to open the channel `key` names.
  static ChannelHello from(const World& world, const ChannelKey& key);
  // The key at the receiving end.
  ChannelKey key() const { return {static_cast<int>(from_rank), context, ordinal}; }
  std::string encode() const;
  static Result<ChannelHello> decode(std::string_view text);
  // Is it meant for this rank, from another one of this job? Errors: permission_denied.
  Status check_against(const World& world) const;
};
inline constexpr std::size_t kChannelHelloBytes = 8 + 4 + 4 + 8 + 4;

// 32 bytes (HMAC-SHA256) that only a holder of `token` can make for `text`.
std::string proof(std::string_view token, std::string_view text);
// Compares without telling by its duration where the two differ.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace trireme
