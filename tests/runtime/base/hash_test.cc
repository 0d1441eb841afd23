#include <trireme/base/hash.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>

namespace trireme {
namespace {

TEST(Hash, IsXxh3) {
  // The reference value of XXH3_64bits for no bytes and seed 0 (xxHash's sanity checks).
  EXPECT_EQ(hash64("", 0, 0), 0x2D06800538D394C2ull);
}

TEST(Hash, PiecesGiveTheHashOfTheWhole) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string data(random() % 5000, '\0');
    for (char& c : data) c = static_cast<char>(random());
    const std::uint64_t seed = random() % 3;
    Hasher hasher(seed);
    std::size_t at = 0;
    while (at < data.size()) {
      const std::size_t piece = std::min<std::size_t>(random() % 700, data.size() - at);
      hasher.update(data.data() + at, piece);
      at += piece;
    }
    ASSERT_EQ(hasher.digest(), hash64(data, seed));
    ASSERT_EQ(hasher.digest(), hash64(data.data(), data.size(), seed)) << "digest may be asked twice";
  }
}

TEST(Hash, EveryFlippedBitAndEverySeedChangesIt) {
  std::string data(33, 'a');
  std::set<std::uint64_t> seen = {hash64(data), hash64(data, 1), hash64(data, 2)};
  for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    seen.insert(hash64(data));
    data[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
  EXPECT_EQ(seen.size(), 3 + data.size() * 8);
}

}  // namespace
}  // namespace trireme
