// The decoders of everything that comes over a network, fed with inputs that are nearly
// right. What a decoder accepts must be what its encoder would have written: so no field
// goes unchecked. For each there is a canary, the same decoder with one check forgotten,
// which the same fuzzer must find.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include <gtest/gtest.h>

#include "collectives/execute/call.h"
#include "collectives/execute/message.h"
#include "runtime/rendezvous/protocol.h"
#include "runtime/transport/tcp/tcp_addresses.h"
#include "runtime/transport/tcp/tcp_stream.h"
#include "runtime/transport/tcp/tcp_wire.h"
#include "tests/fuzz/mutator.h"

namespace trireme::test {
namespace {

constexpr int kInputs = 30'000;
const std::string kToken(32, 't');
const std::string kChallenge = "TRITCPC2" + std::string(32, 'n');

// How many inputs of the fuzzer a check complains about.
template <typename Check>
int complaints(std::uint64_t seed, const std::vector<std::string>& corpus, Check check) {
  Mutator mutator(seed, corpus);
  int count = 0;
  for (int i = 0; i < kInputs; ++i) {
    const std::string input = mutator.next();
    if (!check(input)) ++count;
  }
  return count;
}

// ---- the endpoint of the tcp transport ----

std::vector<std::string> endpoints() {
  TcpEndpoint one{kToken, "boot/net:[1]", 0, {{"10.0.0.2:4711", "eth0", 10'000, false}}};
  TcpEndpoint two = one;
  two.streams = 4;
  two.addresses.push_back({"[fd00::2]:4711", "ib0", 200'000, false});
  two.addresses.push_back({"127.0.0.1:4711", "lo", 0, true});
  return {one.encode(), two.encode(), TcpEndpoint{kToken, "", 16, {}}.encode()};
}

struct RealEndpoint {
  static Result<TcpEndpoint> decode(std::string_view text) { return TcpEndpoint::decode(text); }
};
// Forgets that a number of streams has a limit.
struct PlantedEndpoint {
  static Result<TcpEndpoint> decode(std::string_view text) {
    Result<TcpEndpoint> real = TcpEndpoint::decode(text);
    if (real.is_ok() || real.status().message().find("too many streams") == std::string::npos) return real;
    std::string mended(text);
    std::uint32_t scope_bytes = 0;
    std::memcpy(&scope_bytes, text.data() + 36, 4);
    const std::size_t place = 40 + scope_bytes;
    const auto streams = static_cast<unsigned char>(mended[place]);
    mended[place] = 0;
    real = TcpEndpoint::decode(mended);
    if (real.is_ok()) real->streams = streams;
    return real;
  }
};

template <typename Decoder>
bool endpoint_holds(const std::string& input) {
  const Result<TcpEndpoint> endpoint = Decoder::decode(input);
  if (!endpoint.is_ok()) return true;
  for (const TcpEndpoint::Address& address : endpoint->addresses) {
    if (!numeric_address(address.text).is_ok()) return false;
  }
  return endpoint->encode() == input && endpoint->streams <= kMostTcpStreams && endpoint->token.size() == 32;
}

TEST(DecoderFuzz, EndpointsOfTcp) {
  EXPECT_EQ(complaints(1, endpoints(), endpoint_holds<RealEndpoint>), 0);
}
TEST(DecoderFuzz, EndpointsOfTcpCanaryIsFound) {
  EXPECT_GT(complaints(1, endpoints(), endpoint_holds<PlantedEndpoint>), 0);
}

// ---- the hello of the tcp transport ----

std::vector<std::string> hellos() {
  const ChannelHello channel{.job_hash = 7, .from_rank = 0, .to_rank = 1, .context = 9, .ordinal = 0};
  return {make_tcp_hello(kToken, kChallenge, {channel, 0, 1}), make_tcp_hello(kToken, kChallenge, {channel, 3, 4})};
}

struct RealHello {
  static bool accepts(const std::string& hello) { return check_tcp_hello(kToken, kChallenge, hello).is_ok(); }
};
// Compares all but the last byte of the proof.
struct PlantedHello {
  static bool accepts(std::string hello) {
    if (hello.size() != kTcpHelloBytes) return false;
    const std::string body = hello.substr(0, kTcpHelloBytes - kTcpProofBytes);
    hello.back() = proof(kToken, "hello" + kChallenge + body).back();
    return RealHello::accepts(hello);
  }
};

template <typename Decoder>
int forged_hellos() {
  const std::vector<std::string> corpus = hellos();
  return complaints(2, corpus, [&](const std::string& input) {
    const bool genuine = std::find(corpus.begin(), corpus.end(), input) != corpus.end();
    static_cast<void>(check_tcp_hello_begin(input).is_ok());
    static_cast<void>(check_tcp_challenge(input).is_ok());
    return genuine == Decoder::accepts(input);
  });
}

TEST(DecoderFuzz, HellosOfTcp) {
  EXPECT_EQ(forged_hellos<RealHello>(), 0);
}
TEST(DecoderFuzz, HellosOfTcpCanaryIsFound) {
  EXPECT_GT(forged_hellos<PlantedHello>(), 0);
}

// ---- headers and signatures of the collectives ----

template <std::size_t kBytes>
std::optional<std::array<std::byte, kBytes>> as_bytes(const std::string& input) {
  if (input.size() < kBytes) return std::nullopt;
  std::array<std::byte, kBytes> bytes;
  std::memcpy(bytes.data(), input.data(), kBytes);
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> message_headers() {
  std::vector<std::string> corpus;
  for (const MessageKind kind : {MessageKind::eager, MessageKind::announce, MessageKind::clear, MessageKind::credit}) {
    corpus.push_back(text_of(encode_message_header({kind, DataType::f32, 5, 1000, 77})));
  }
  return corpus;
}

struct RealHeader {
  static std::optional<MessageHeader> decode(const MessageHeaderBytes& bytes) { return decode_message_header(bytes); }
};
// Does not look at the bytes that are reserved.
struct PlantedHeader {
  static std::optional<MessageHeader> decode(MessageHeaderBytes bytes) {
    std::fill_n(bytes.begin() + 12, 4, std::byte{0});
    return decode_message_header(bytes);
  }
};

template <typename Decoder>
bool header_holds(const std::string& input) {
  const auto bytes = as_bytes<kMessageHeaderBytes>(input);
  if (!bytes) return true;
  const std::optional<MessageHeader> header = Decoder::decode(*bytes);
  return !header || encode_message_header(*header) == *bytes;
}

TEST(DecoderFuzz, MessageHeaders) {
  EXPECT_EQ(complaints(3, message_headers(), header_holds<RealHeader>), 0);
}
TEST(DecoderFuzz, MessageHeadersCanaryIsFound) {
  EXPECT_GT(complaints(3, message_headers(), header_holds<PlantedHeader>), 0);
}

TEST(DecoderFuzz, SignaturesOfCalls) {
  Call call;
  call.kind = CallKind::all_reduce;
  call.type = DataType::bf16;
  call.count = 12345;
  call.sequence = 99;
  const std::vector<std::string> corpus = {text_of(encode_signature(call)), text_of(encode_signature(Call{}))};
  EXPECT_EQ(complaints(4, corpus,
                       [](const std::string& input) {
                         const auto bytes = as_bytes<kSignatureBytes>(input);
                         if (!bytes) return true;
                         const std::optional<Call> decoded = decode_signature(*bytes);
                         if (!decoded) return true;
                         const Signature again = encode_signature(*decoded);
                         const std::optional<Call> twice = decode_signature(again);
                         return twice && encode_signature(*twice) == again;
                       }),
            0);
}

// ---- the store's protocol ----

std::vector<std::string> store_hellos() {
  store::Hello hello;
  hello.job_id = "job";
  hello.world_size = 4;
  hello.epoch = 3;
  hello.rank = 2;
  hello.nonce = std::string(store::kNonceBytes, 'n');
  hello.host = "node1";
  hello.host_identity = "boot/net:[1]";
  hello.pid = 4711;
  std::vector<std::string> corpus = {hello.encode()};
  hello.resume = true;
  hello.job_id = std::string(200, 'j');
  corpus.push_back(hello.encode());
  return corpus;
}

TEST(DecoderFuzz, HellosOfTheStore) {
  EXPECT_EQ(complaints(5, store_hellos(),
                       [](const std::string& input) {
                         const Result<store::Hello> hello = store::Hello::decode(input);
                         return !hello.is_ok() || (hello->encode() == input && hello->rank < hello->world_size);
                       }),
            0);
}

TEST(DecoderFuzz, TablesFailuresAndRepliesOfTheStore) {
  PeerInfo peer;
  peer.host = "node1";
  peer.host_identity = "x";
  peer.pid = 7;
  const std::vector<std::string> corpus = {
      store::encode_table({peer, peer}), store::encode_failure({peer_dead("gone"), 1, 5}),
      store::encode_reply(Status::ok(), "value"), store::encode_status(stale_epoch("old"))};
  EXPECT_EQ(
      complaints(6, corpus,
                 [](const std::string& input) {
                   const auto table = store::decode_table(input);
                   const auto failure = store::decode_failure(input);
                   const auto reply = store::decode_reply(input);
                   if (store::decode_status(input).is_ok()) return false;  // An error is what it carries.
                   return (!table.is_ok() || store::encode_table(*table) == input) &&
                          (!failure.is_ok() || store::encode_failure(*failure) == input) &&
                          (!reply.is_ok() || *store::decode_reply(store::encode_reply(Status::ok(), *reply)) == *reply);
                 }),
      0);
}

// All frames a reader cuts from a stream that comes in pieces, and how it ended.
std::string frames_of(const std::string& stream, std::size_t most_bytes, Mutator& pieces, std::size_t largest_piece) {
  store::FrameReader reader(most_bytes, true);
  std::string story;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t piece = std::min(stream.size() - at, 1 + pieces.below(largest_piece));
    reader.append(stream.data() + at, piece);
    at += piece;
    for (;;) {
      auto frame = reader.next();
      if (!frame.is_ok()) return story + "error";
      if (!frame->has_value()) break;
      story += store::encode_frame((*frame)->type, (*frame)->id, (*frame)->payload) + "|";
    }
  }
  return story;
}

std::vector<std::string> frame_streams() {
  std::string stream(store::kPreamble);
  std::vector<std::string> corpus = {stream};
  for (std::size_t bytes : {0u, 1u, 90u, 400u}) {
    stream += store::encode_frame(store::MessageType::put, bytes, std::string(bytes, 'p'));
    corpus.push_back(stream);
  }
  return corpus;
}

// Frames longer than 256 bytes must not pass a reader of `limit`, and the pieces in which
// a stream comes must not matter.
int wrong_streams(std::size_t limit) {
  Mutator pieces(8, {""});
  return complaints(7, frame_streams(), [&](const std::string& input) {
    const std::string whole = frames_of(input, limit, pieces, 1 << 20);
    if (frames_of(input, limit, pieces, 7) != whole) return false;
    for (std::size_t at = 0; at < whole.size();) {
      std::uint32_t length = 0;
      if (whole.compare(at, 5, "error") == 0 || at + 4 > whole.size()) break;
      std::memcpy(&length, whole.data() + at, 4);
      if (length > 256) return false;
      at += 4 + length + 1;
    }
    return true;
  });
}

TEST(DecoderFuzz, FramesOfTheStore) {
  EXPECT_EQ(wrong_streams(256), 0);
}
TEST(DecoderFuzz, FramesOfTheStoreCanaryIsFound) {
  EXPECT_GT(wrong_streams(1 << 20), 0);  // A reader that forgot its limit.
}

}  // namespace
}  // namespace trireme::test
