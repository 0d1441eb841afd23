#include "runtime/transport/tcp/tcp_wire.h"

#include <algorithm>

#include <fmt/core.h>

#include <trireme/base/wire.h>

#include "runtime/platform/api/process.h"
#include "runtime/transport/tcp/tcp_addresses.h"
#include "runtime/transport/tcp/tcp_stream.h"

namespace trireme {
namespace {

constexpr std::string_view kChallengeMagic = "TRITCPC2";
constexpr std::string_view kHelloMagic = "TRITCPH2";
constexpr std::string_view kWelcomeMagic = "TRITCPW2";
constexpr std::string_view kRefusalMagic = "TRITCPR2";
constexpr std::size_t kMostAddresses = 256;
constexpr std::size_t kMostTextBytes = 512;

std::string signed_text(std::string_view purpose, std::string_view challenge, std::string_view body) {
  return std::string(purpose) + std::string(challenge) + std::string(body);
}

// Status of bytes that should begin with `magic`, whose last digit is the version.
Status check_magic(const char* what, std::string_view text, std::string_view magic) {
  if (text.starts_with(magic)) return Status::ok();
  const std::string_view kind = magic.substr(0, magic.size() - 1);
  if (text.size() >= magic.size() && text.starts_with(kind)) {
    return mismatch(
        fmt::format("tcp transport: a {} of version {} where version {} was expected: start all ranks from "
                    "one build",
                    what, text[kind.size()], magic.back()));
  }
  return data_loss(fmt::format("tcp transport: what came is no {}: the sender is no Trireme rank", what));
}

}  // namespace

std::string make_tcp_challenge() {
  return std::string(kChallengeMagic) + random_bytes(kTcpNonceBytes);
}

Status check_tcp_challenge(std::string_view challenge) {
  TRIREME_RETURN_IF_ERROR(check_magic("challenge", challenge, kChallengeMagic));
  if (challenge.size() != kTcpChallengeBytes) return data_loss("tcp transport: a challenge of the wrong length");
  return Status::ok();
}

std::string make_tcp_hello(std::string_view token, std::string_view challenge, const TcpHello& hello) {
  std::string body = std::string(kHelloMagic) + hello.channel.encode();
  body.push_back(static_cast<char>(hello.stream));
  body.push_back(static_cast<char>(hello.streams));
  body += random_bytes(kTcpNonceBytes);
  return body + proof(token, signed_text("hello", challenge, body));
}

Status check_tcp_hello_begin(std::string_view begin) {
  if (begin.size() >= kTcpMagicBytes || !kHelloMagic.starts_with(begin)) {
    return check_magic("hello", begin, kHelloMagic);
  }
  return Status::ok();
}

Result<TcpHello> check_tcp_hello(std::string_view token, std::string_view challenge, std::string_view hello) {
  TRIREME_RETURN_IF_ERROR(check_magic("hello", hello, kHelloMagic));
  if (hello.size() != kTcpHelloBytes) return data_loss("tcp transport: a hello of the wrong length");
  const std::string_view body = hello.substr(0, kTcpHelloBytes - kTcpProofBytes);
  TcpHello result;
  TRIREME_ASSIGN_OR_RETURN(result.channel, ChannelHello::decode(body.substr(kTcpMagicBytes, kChannelHelloBytes)));
  if (!equal_secrets(hello.substr(body.size()), proof(token, signed_text("hello", challenge, body)))) {
    return permission_denied(
        fmt::format("tcp transport: a hello whose proof is wrong: the sender says it is rank {} and looks for rank {}, "
                    "but is no member of this job or of this attempt",
                    result.channel.from_rank, result.channel.to_rank));
  }
  result.stream = static_cast<unsigned char>(body[kTcpMagicBytes + kChannelHelloBytes]);
  result.streams = static_cast<unsigned char>(body[kTcpMagicBytes + kChannelHelloBytes + 1]);
  if (result.streams < 1 || result.streams > kMostTcpStreams || result.stream >= result.streams) {
    return data_loss(fmt::format("tcp transport: a hello for stream {} of {}: expected at most {} streams",
                                 result.stream, result.streams, kMostTcpStreams));
  }
  return result;
}

std::string make_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello) {
  return std::string(kWelcomeMagic) + proof(token, signed_text("welcome", challenge, hello));
}

std::string make_tcp_refusal(const Status& why) {
  std::string text(kRefusalMagic);
  text.push_back(static_cast<char>(why.code()));
  text.resize(kTcpWelcomeBytes, '\0');
  return text;
}

Status check_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello,
                         std::string_view welcome) {
  if (equal_secrets(welcome, make_tcp_welcome(token, challenge, hello))) return Status::ok();
  if (welcome.size() == kTcpWelcomeBytes && welcome.starts_with(kRefusalMagic)) {
    const auto code = static_cast<unsigned char>(welcome[kTcpMagicBytes]);
    const bool known = code > 0 && code <= static_cast<unsigned char>(StatusCode::io_error);
    return permission_denied(fmt::format("tcp transport: the acceptor refused us ({}); its log says why",
                                         known ? to_string(static_cast<StatusCode>(code)) : "unknown reason"));
  }
  return permission_denied("tcp transport: the acceptor's proof is wrong: it is not the rank that was sought");
}

std::string TcpEndpoint::encode() const {
  WireWriter writer;
  writer.bytes(token);
  writer.bytes(network_scope);
  writer.u8(static_cast<std::uint8_t>(streams));
  writer.u32(static_cast<std::uint32_t>(addresses.size()));
  for (const Address& address : addresses) {
    writer.bytes(address.text);
    writer.bytes(address.interface);
    writer.u32(address.speed_mbit);
    writer.u8(address.loopback ? 1 : 0);
  }
  return writer.take();
}

Result<TcpEndpoint> TcpEndpoint::decode(std::string_view text) {
  const auto malformed = [](const char* what) {
    return data_loss(
        fmt::format("tcp transport: malformed advertisement: {}; run the same Trireme version on all "
                    "ranks",
                    what));
  };
  WireReader reader(text);
  TcpEndpoint endpoint;
  endpoint.token = reader.string();
  endpoint.network_scope = reader.string();
  endpoint.streams = reader.u8();
  const std::uint32_t count = reader.u32();
  if (reader.failed()) return malformed("cut short");
  if (endpoint.token.size() != kTcpTokenBytes) return malformed("the token has not 32 bytes");
  if (endpoint.network_scope.size() > kMostTextBytes) return malformed("the network's name is too long");
  if (endpoint.streams > kMostTcpStreams) return malformed("too many streams");
  if (count > kMostAddresses) return malformed("too many addresses");
  for (std::uint32_t i = 0; i < count; ++i) {
    Address address;
    address.text = reader.string();
    address.interface = reader.string();
    address.speed_mbit = reader.u32();
    const std::uint8_t loopback = reader.u8();
    if (reader.failed()) return malformed("cut short");
    if (!numeric_address(address.text).is_ok()) return malformed("an address is not numeric, with a port");
    if (address.interface.size() > kMostTextBytes || loopback > 1) return malformed("an address's flags");
    address.loopback = loopback == 1;
    endpoint.addresses.push_back(std::move(address));
  }
  if (!reader.finished()) return malformed("bytes are left over");
  return endpoint;
}

}  // namespace trireme
