#include <trireme/base/hash.h>

#include <xxhash.h>

#include <trireme/base/check.h>

namespace trireme {

std::uint64_t hash64(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

Hasher::Hasher(std::uint64_t seed) : state_(XXH3_createState()) {
  TRIREME_CHECK(state_ != nullptr, "out of memory for a hash state");
  XXH3_64bits_reset_withSeed(static_cast<XXH3_state_t*>(state_), seed);
}

Hasher::~Hasher() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Hasher::update(const void* data, std::size_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), data, bytes);
}

std::uint64_t Hasher::digest() const {
  return XXH3_64bits_digest(static_cast<XXH3_state_t*>(state_));
}

}  // namespace trireme
