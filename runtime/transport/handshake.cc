#include "runtime/transport/api/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <trireme/base/hash.h>
#include <trireme/base/wire.h>

namespace trireme {
namespace {
// The same job name at another attempt is another job: its channels must not meet ours.
std::uint64_t job_hash(const World& world) {
  return hash64(world.job_id(), static_cast<std::uint64_t>(world.epoch()));
}
}  // namespace

ChannelHello ChannelHello::from(const World& world, const ChannelKey& key) {
  return {.job_hash = trireme::job_hash(world),
          .from_rank = static_cast<std::uint32_t>(world.rank()),
          .to_rank = static_cast<std::uint32_t>(key.peer),
          .context = key.context,
          .ordinal = key.ordinal};
}

std::string ChannelHello::encode() const {
  WireWriter writer;
  writer.u64(job_hash);
  writer.u32(from_rank);
  writer.u32(to_rank);
  writer.u64(context);
  writer.u32(ordinal);
  return writer.take();
}

Result<ChannelHello> ChannelHello::decode(std::string_view text) {
  WireReader reader(text);
  ChannelHello hello;
  hello.job_hash = reader.u64();
  hello.from_rank = reader.u32();
  hello.to_rank = reader.u32();
  hello.context = reader.u64();
  hello.ordinal = reader.u32();
  if (!reader.finished()) return data_loss("channel hello: expected " + std::to_string(kChannelHelloBytes) + " bytes");
  return hello;
}

Status ChannelHello::check_against(const World& world) const {
  if (job_hash != trireme::job_hash(world)) return permission_denied("channel hello of another job or attempt");
  if (to_rank != static_cast<std::uint32_t>(world.rank())) {
    return permission_denied("channel hello for rank " + std::to_string(to_rank) + " came to rank " +
                             std::to_string(world.rank()));
  }
  if (from_rank >= static_cast<std::uint32_t>(world.size()) || from_rank == to_rank) {
    return permission_denied("channel hello from rank " + std::to_string(from_rank) + " of a world of " +
                             std::to_string(world.size()));
  }
  return Status::ok();
}

std::string proof(std::string_view token, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  TRIREME_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &bytes) != nullptr,
                "HMAC-SHA256 failed");
  return {reinterpret_cast<const char*>(digest), bytes};
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace trireme
