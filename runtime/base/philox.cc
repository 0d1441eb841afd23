#include <trireme/base/philox.h>

#include <cmath>
#include <numbers>

#include <trireme/base/check.h>

namespace trireme {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint32_t kMultiplier0 = 0xD2511F53u;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85u;

std::array<std::uint32_t, 4> draw(PhiloxKey key, std::uint64_t ordinal, std::uint64_t element) {
  return philox4x32(key, {static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32),
                          static_cast<std::uint32_t>(ordinal), static_cast<std::uint32_t>(ordinal >> 32)});
}

double unit_interval(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(PhiloxKey key, std::array<std::uint32_t, 4> counter) {
  std::uint32_t key0 = key.word[0];
  std::uint32_t key1 = key.word[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = static_cast<std::uint64_t>(kMultiplier0) * counter[0];
    const std::uint64_t product1 = static_cast<std::uint64_t>(kMultiplier1) * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

PhiloxKey make_philox_key(std::uint64_t seed, std::uint32_t purpose, std::uint32_t layer) {
  // One block of the generator itself mixes seed, purpose and layer into a key.
  const PhiloxKey seed_key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const auto mixed = philox4x32(seed_key, {purpose, layer, 0x54524952u, 0x454d4500u});
  return PhiloxKey{{mixed[0], mixed[1]}};
}

float philox_uniform(PhiloxKey key, std::uint64_t ordinal, std::uint64_t element) {
  return static_cast<float>(draw(key, ordinal, element)[0] >> 8) * 0x1p-24f;
}

float philox_normal(PhiloxKey key, std::uint64_t ordinal, std::uint64_t element) {
  const auto word = draw(key, ordinal, element);
  const double radius = std::sqrt(-2.0 * std::log1p(-unit_interval(word[0], word[1])));
  const double angle = 2.0 * std::numbers::pi * unit_interval(word[2], word[3]);
  return static_cast<float>(radius * std::cos(angle));
}

std::uint64_t philox_below(PhiloxKey key, std::uint64_t ordinal, std::uint64_t element, std::uint64_t bound) {
  TRIREME_CHECK(bound > 0, "philox_below needs a positive bound");
  const auto word = draw(key, ordinal, element);
  const std::uint64_t bits = static_cast<std::uint64_t>(word[0]) << 32 | word[1];
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
}

}  // namespace trireme
