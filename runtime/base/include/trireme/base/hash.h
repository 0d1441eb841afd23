// Content hashing (XXH3, 64 bits): for checksums and table keys, not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

std::uint64_t hash64(const void* data, std::size_t bytes, std::uint64_t seed = 0);
inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) {
  return hash64(text.data(), text.size(), seed);
}

// The same hash over data that arrives in pieces.
class Hasher {
 public:
  explicit Hasher(std::uint64_t seed = 0);
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* data, std::size_t bytes);
  std::uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace trireme
