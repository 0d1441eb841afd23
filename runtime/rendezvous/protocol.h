// The store's bytes on the wire: frames, message types, and the values of the handshake.
// docs/formats/store.md is the reference.
//
// A connection begins with the client's eight bytes kPreamble; then both sides send
// frames: u32 length of the rest, u8 type, u64 id, payload. All is little-endian (wire.h).
// Decoders validate every field and return invalid_argument with a reason that is fit
// to be sent to the peer. Thread safety: values and free functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/rendezvous/world.h>

namespace trireme::store {

inline constexpr std::string_view kPreamble = "TRMSTORE";
inline constexpr std::uint16_t kProtocolVersion = 3;
inline constexpr std::size_t kFrameOverheadBytes = 13;                       // length, type, id
inline constexpr std::size_t kMaxHandshakeFrameBytes = 4096;                 // before a client proved itself
inline constexpr std::size_t kMaxValueBytes = std::size_t{16} << 20;         // one value of put or exchange
inline constexpr std::size_t kMaxRequestBytes = kMaxValueBytes + (1 << 20);  // a frame from a member
inline constexpr std::size_t kMaxReplyBytes = std::size_t{257} << 20;        // a frame from the store
inline constexpr std::size_t kMaxExchangeBytes = std::size_t{256} << 20;     // all values of one exchange
inline constexpr std::size_t kMaxKeyBytes = 4096;
inline constexpr std::size_t kMaxTextBytes = 256;  // job id, host, host identity
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr int kMaxWorldSize = 1 << 20;

enum class MessageType : std::uint8_t {
  // The handshake. `refused` has this number in every version.
  refused = 1,    // store → client: u8 code, bytes message
  hello = 2,      // client → store: Hello
  challenge = 3,  // store → client: bytes nonce, bytes proof
  proof = 4,      // client → store: bytes proof
  welcome = 5,    // store → client: i64 rank whose process hosts the store, or -1
  table = 6,      // store → member, once all are there: every member's host, identity, pid

  // Requests of members; the id names the request, and the reply carries it.
  put = 16,              // bytes key, bytes value
  get = 17,              // bytes key
  cancel = 18,           // (id of a request whose caller gave up) no reply but to exchange
  add = 19,              // bytes key, i64 delta
  exchange = 20,         // bytes name, u32 count, u32 rank..., bytes value
  report_failure = 21,   // Failure; no reply
  activity_query = 22,   // answered by activity_parts until every rank is told of
  activity_answer = 23,  // (id of activity_request) bytes text; no reply
  notify = 24,           // bytes topic, bytes value; no reply
  leave = 25,            // replied to, then the connection ends; before the table: gives up joining
  survivors = 26,        // bytes name, u32 count, u32 rank...; the reply: u32 count, u32 rank...

  // From the store to members.
  reply = 48,             // u8 code, bytes message, then the result's bytes
  failure = 49,           // Failure
  activity_request = 50,  // (id of the round of questions) what are you doing?
  activity_parts = 51,    // (id of the request) u32 count, of each: u32 rank, u8 known, bytes text
  departed = 52,          // u32 rank: left in order
  closing = 53,           // bytes reason: the store ends in order
};
std::string_view to_string(MessageType type);

struct Frame {
  MessageType type{};
  std::uint64_t id = 0;
  std::string payload;
};
std::string encode_frame_header(MessageType type, std::uint64_t id, std::size_t payload_bytes);
std::string encode_frame(MessageType type, std::uint64_t id, std::string_view payload);

// Cuts a byte stream into frames. After an error the stream is useless.
class FrameReader {
 public:
  FrameReader(std::size_t max_frame_bytes, bool expect_preamble)
      : max_frame_bytes_(max_frame_bytes), expect_preamble_(expect_preamble) {}
  void append(const char* data, std::size_t bytes) { buffer_.append(data, bytes); }
  // The next whole frame, or nullopt when more bytes are needed.
  // Errors: invalid_argument for a wrong preamble, a frame too short or too long.
  Result<std::optional<Frame>> next();
  void set_max_frame_bytes(std::size_t bytes) { max_frame_bytes_ = bytes; }

 private:
  Status check_preamble();
  std::string buffer_;
  std::size_t used_ = 0;
  std::size_t max_frame_bytes_;
  bool expect_preamble_;
};

// Who a client says it is.
struct Hello {
  std::uint16_t version = kProtocolVersion;
  std::string job_id;
  std::uint32_t world_size = 0;
  std::int64_t epoch = 0;
  std::uint32_t rank = 0;
  bool resume = false;  // Was a member, lost its connection, and asks what happened.
  std::string nonce;
  std::string host;
  std::string host_identity;
  std::int64_t pid = 0;
  std::string encode() const;
  // Errors: unsupported for another protocol version, invalid_argument.
  static Result<Hello> decode(std::string_view payload);
};

// HMAC-SHA256 with the job's secret over the role, both nonces and the hello's bytes: no
// proof can be replayed, reflected, or moved to another rank.
enum class ProofRole : std::uint8_t { store = 1, client = 2 };
std::string make_proof(std::string_view secret, ProofRole role, std::string_view client_nonce,
                       std::string_view store_nonce, std::string_view hello_payload);
// Frees what OpenSSL keeps for the calling thread's next proof. A thread of ours does so
// after each turn: a child forked in between has no such thread to free it.
void forget_proofs();
bool equal_in_constant_time(std::string_view a, std::string_view b);

std::string encode_status(const Status& status);  // u8 code, bytes message
// The error that was sent, or data_loss when the payload is not one.
Status decode_status(std::string_view payload);
std::string encode_reply(const Status& status, std::string_view result);
// The result's bytes or the Status that was sent. Errors: data_loss when malformed.
Result<std::string> decode_reply(std::string_view payload);
std::string encode_failure(const Failure& failure);
Result<Failure> decode_failure(std::string_view payload);
// Local and node ranks are computed from the host identities, so they are not sent.
std::string encode_table(const std::vector<PeerInfo>& peers);
Result<std::vector<PeerInfo>> decode_table(std::string_view payload);
// The limits of requests, in the same words wherever they are checked.
Status check_key(std::string_view key);
Status check_value(std::string_view key, std::string_view value);
Status counter_overflow(std::string_view key, std::int64_t counter, std::int64_t delta);
// Numbers hosts in the order of their lowest rank, and ranks within each.
void assign_local_ranks(std::vector<PeerInfo>& peers);

}  // namespace trireme::store
