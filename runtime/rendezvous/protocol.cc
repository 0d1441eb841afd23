#include "runtime/rendezvous/protocol.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <trireme/base/wire.h>

namespace trireme::store {
namespace {

// What arrived, fit to be printed: junk may be binary.
std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 16)) text += (c >= ' ' && c <= '~') ? c : '.';
  return text;
}

bool valid_code(std::uint8_t code) {
  return code <= static_cast<std::uint8_t>(StatusCode::io_error);
}

Status make_status(std::uint8_t code, std::string message) {
  return code == 0 ? Status::ok() : Status(static_cast<StatusCode>(code), std::move(message));
}

}  // namespace

std::string_view to_string(MessageType type) {
  switch (type) {
    case MessageType::refused:
      return "refused";
    case MessageType::hello:
      return "hello";
    case MessageType::challenge:
      return "challenge";
    case MessageType::proof:
      return "proof";
    case MessageType::welcome:
      return "welcome";
    case MessageType::table:
      return "table";
    case MessageType::put:
      return "put";
    case MessageType::get:
      return "get";
    case MessageType::cancel:
      return "cancel";
    case MessageType::add:
      return "add";
    case MessageType::exchange:
      return "exchange";
    case MessageType::report_failure:
      return "report_failure";
    case MessageType::activity_query:
      return "activity_query";
    case MessageType::activity_answer:
      return "activity_answer";
    case MessageType::notify:
      return "notify";
    case MessageType::leave:
      return "leave";
    case MessageType::survivors:
      return "survivors";
    case MessageType::reply:
      return "reply";
    case MessageType::failure:
      return "failure";
    case MessageType::activity_request:
      return "activity_request";
    case MessageType::activity_parts:
      return "activity_parts";
    case MessageType::departed:
      return "departed";
    case MessageType::closing:
      return "closing";
  }
  return "unknown";
}

std::string encode_frame_header(MessageType type, std::uint64_t id, std::size_t payload_bytes) {
  WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(payload_bytes + 9));
  writer.u8(static_cast<std::uint8_t>(type));
  writer.u64(id);
  return writer.take();
}

std::string encode_frame(MessageType type, std::uint64_t id, std::string_view payload) {
  std::string frame = encode_frame_header(type, id, payload.size());
  frame.append(payload);
  return frame;
}

Status FrameReader::check_preamble() {
  const std::size_t have = std::min(buffer_.size() - used_, kPreamble.size());
  const std::string_view begin(buffer_.data() + used_, have);
  if (begin != kPreamble.substr(0, have)) {
    return invalid_argument(fmt::format("not a Trireme client: it began with \"{}\"", printable(begin)));
  }
  return Status::ok();
}

Result<std::optional<Frame>> FrameReader::next() {
  if (expect_preamble_) {
    TRIREME_RETURN_IF_ERROR(check_preamble());
    if (buffer_.size() - used_ < kPreamble.size()) return std::optional<Frame>();
    used_ += kPreamble.size();
    expect_preamble_ = false;
  }
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  if (rest.size() < 4) return std::optional<Frame>();
  const std::size_t length = WireReader(rest).u32();
  if (length < 9) return invalid_argument(fmt::format("a frame of {} bytes; the shortest has 9", length));
  if (length > max_frame_bytes_) {
    return invalid_argument(fmt::format("a frame of {} bytes; at most {} are accepted here", length, max_frame_bytes_));
  }
  if (rest.size() < 4 + length) return std::optional<Frame>();
  WireReader reader(rest.substr(4));
  Frame frame;
  frame.type = static_cast<MessageType>(reader.u8());
  frame.id = reader.u64();
  frame.payload.assign(rest.substr(kFrameOverheadBytes, length - 9));
  used_ += 4 + length;
  // Moving the tail only when it is the smaller part keeps the cost linear in the bytes.
  if (used_ * 2 >= buffer_.size()) {
    buffer_.erase(0, used_);
    used_ = 0;
    if (buffer_.empty() && buffer_.capacity() > kMaxValueBytes / 4) buffer_.shrink_to_fit();
  }
  return std::optional<Frame>(std::move(frame));
}

std::string Hello::encode() const {
  WireWriter writer;
  writer.u16(version);
  writer.bytes(job_id);
  writer.u32(world_size);
  writer.i64(epoch);
  writer.u32(rank);
  writer.u8(resume ? 1 : 0);
  writer.bytes(nonce);
  writer.bytes(host);
  writer.bytes(host_identity);
  writer.i64(pid);
  return writer.take();
}

Result<Hello> Hello::decode(std::string_view payload) {
  WireReader reader(payload);
  Hello hello;
  hello.version = reader.u16();
  if (!reader.failed() && hello.version != kProtocolVersion) {
    return unsupported(
        fmt::format("the client speaks store protocol version {}, this store speaks version {}: "
                    "use one Trireme version for the whole job",
                    hello.version, kProtocolVersion));
  }
  hello.job_id = reader.string();
  hello.world_size = reader.u32();
  hello.epoch = reader.i64();
  hello.rank = reader.u32();
  const std::uint8_t flags = reader.u8();
  hello.nonce = reader.string();
  hello.host = reader.string();
  hello.host_identity = reader.string();
  hello.pid = reader.i64();
  if (!reader.finished()) return invalid_argument("a malformed hello: its fields do not fill its bytes");
  hello.resume = flags == 1;
  if (flags > 1) return invalid_argument(fmt::format("a malformed hello: flags {} where 0 or 1 is known", flags));
  if (hello.nonce.size() != kNonceBytes) {
    return invalid_argument(
        fmt::format("a malformed hello: a nonce of {} bytes, not {}", hello.nonce.size(), kNonceBytes));
  }
  for (const std::string* text : {&hello.job_id, &hello.host, &hello.host_identity}) {
    if (text->size() > kMaxTextBytes) {
      return invalid_argument(
          fmt::format("a malformed hello: a text of {} bytes, above {}", text->size(), kMaxTextBytes));
    }
  }
  if (hello.world_size < 1 || hello.world_size > kMaxWorldSize || hello.rank >= hello.world_size) {
    return invalid_argument(fmt::format("rank {} of {} ranks is not possible (at most {} ranks)", hello.rank,
                                        hello.world_size, kMaxWorldSize));
  }
  return hello;
}

std::string make_proof(std::string_view secret, ProofRole role, std::string_view client_nonce,
                       std::string_view store_nonce, std::string_view hello_payload) {
  WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(role));
  writer.bytes(client_nonce);
  writer.bytes(store_nonce);
  writer.bytes(hello_payload);
  const std::string& data = writer.data();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  // An empty secret is a key of no bytes, which OpenSSL wants as a pointer that is not null.
  const void* key = secret.empty() ? "" : secret.data();
  const unsigned char* done = HMAC(EVP_sha256(), key, static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest, &bytes);
  TRIREME_CHECK(done != nullptr, "OpenSSL has no HMAC-SHA256");
  return std::string(reinterpret_cast<const char*>(digest), bytes);
}

void forget_proofs() {
  OPENSSL_thread_stop();
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string encode_status(const Status& status) {
  return encode_reply(status, {});
}

Status decode_status(std::string_view payload) {
  WireReader reader(payload);
  const std::uint8_t code = reader.u8();
  std::string message = reader.string();
  if (!reader.finished() || code == 0 || !valid_code(code)) return data_loss("a malformed status came from the store");
  return make_status(code, std::move(message));
}

std::string encode_reply(const Status& status, std::string_view result) {
  WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(status.code()));
  writer.bytes(status.message());
  std::string payload = writer.take();
  payload.append(result);
  return payload;
}

Result<std::string> decode_reply(std::string_view payload) {
  WireReader reader(payload);
  const std::uint8_t code = reader.u8();
  std::string message = reader.string();
  if (reader.failed() || !valid_code(code)) return data_loss("a malformed reply came from the store");
  if (code != 0) return make_status(code, std::move(message));
  return std::string(payload.substr(payload.size() - reader.remaining()));
}

std::string encode_failure(const Failure& failure) {
  WireWriter writer;
  writer.u64(failure.context);
  writer.i64(failure.culprit_rank);
  writer.u8(static_cast<std::uint8_t>(failure.status.code()));
  writer.bytes(failure.status.message());
  return writer.take();
}

Result<Failure> decode_failure(std::string_view payload) {
  WireReader reader(payload);
  Failure failure;
  failure.context = reader.u64();
  const std::int64_t culprit = reader.i64();
  const std::uint8_t code = reader.u8();
  std::string message = reader.string();
  if (!reader.finished() || code == 0 || !valid_code(code) || culprit < -1 || culprit >= kMaxWorldSize) {
    return invalid_argument("a malformed failure");
  }
  failure.culprit_rank = static_cast<int>(culprit);
  failure.status = make_status(code, std::move(message));
  return failure;
}

std::string encode_table(const std::vector<PeerInfo>& peers) {
  WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(peers.size()));
  for (const PeerInfo& peer : peers) {
    writer.bytes(peer.host);
    writer.bytes(peer.host_identity);
    writer.i64(peer.pid);
  }
  return writer.take();
}

Result<std::vector<PeerInfo>> decode_table(std::string_view payload) {
  WireReader reader(payload);
  const std::uint32_t count = reader.u32();
  std::vector<PeerInfo> peers;
  for (std::uint32_t rank = 0; rank < count && !reader.failed(); ++rank) {
    PeerInfo peer;
    peer.rank = static_cast<int>(rank);
    peer.host = reader.string();
    peer.host_identity = reader.string();
    peer.pid = reader.i64();
    peers.push_back(std::move(peer));
  }
  if (!reader.finished()) return data_loss("a malformed table of ranks came from the store");
  assign_local_ranks(peers);
  return peers;
}

Status check_key(std::string_view key) {
  if (!key.empty() && key.size() <= kMaxKeyBytes) return Status::ok();
  return invalid_argument(fmt::format("a key of {} bytes; 1 to {} are accepted", key.size(), kMaxKeyBytes));
}

Status check_value(std::string_view key, std::string_view value) {
  if (value.size() <= kMaxValueBytes) return Status::ok();
  return invalid_argument(
      fmt::format("the value of \"{}\" has {} bytes, above the limit of {}: the store is for small "
                  "values, send bulk data through a communicator",
                  key, value.size(), kMaxValueBytes));
}

Status counter_overflow(std::string_view key, std::int64_t counter, std::int64_t delta) {
  return invalid_argument(fmt::format("counter \"{}\" is {} and would overflow by adding {}", key, counter, delta));
}

void assign_local_ranks(std::vector<PeerInfo>& peers) {
  struct Host {
    int node_rank = 0;
    int ranks = 0;
  };
  std::unordered_map<std::string, Host> hosts;
  for (PeerInfo& peer : peers) {
    const int next_node = static_cast<int>(hosts.size());
    Host& host = hosts.try_emplace(peer.host_identity, Host{next_node, 0}).first->second;
    peer.node_rank = host.node_rank;
    peer.local_rank = host.ranks++;
  }
}

}  // namespace trireme::store
