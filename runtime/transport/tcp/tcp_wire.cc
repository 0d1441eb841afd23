#include "runtime/transport/tcp/tcp_wire.h"

#include <trireme/base/wire.h>

namespace trireme {
namespace {

constexpr std::string_view kChallengeMagic = "TRITCPC1";
constexpr std::string_view kHelloMagic = "TRITCPH1";
constexpr std::string_view kWelcomeMagic = "TRITCPW1";

std::string signed_text(std::string_view purpose, std::string_view challenge, std::string_view body) {
  return std::string(purpose) + std::string(challenge) + std::string(body);
}

Status not_ours(const char* what) {
  return data_loss(std::string("tcp transport: what came is no ") + what + " of this version");
}

}  // namespace

std::string make_tcp_challenge() {
  return std::string(kChallengeMagic) + random_bytes(kTcpNonceBytes);
}

Status check_tcp_challenge(std::string_view challenge) {
  if (challenge.size() != kTcpChallengeBytes || !challenge.starts_with(kChallengeMagic)) return not_ours("challenge");
  return Status::ok();
}

std::string make_tcp_hello(std::string_view token, std::string_view challenge, const ChannelHello& channel) {
  const std::string body = std::string(kHelloMagic) + channel.encode() + random_bytes(kTcpNonceBytes);
  return body + proof(token, signed_text("hello", challenge, body));
}

Result<ChannelHello> check_tcp_hello(std::string_view token, std::string_view challenge, std::string_view hello) {
  if (hello.size() != kTcpHelloBytes || !hello.starts_with(kHelloMagic)) return not_ours("hello");
  const std::string_view body = hello.substr(0, kTcpHelloBytes - kTcpProofBytes);
  if (!equal_secrets(hello.substr(body.size()), proof(token, signed_text("hello", challenge, body)))) {
    return permission_denied("tcp transport: a hello whose proof is wrong: the sender is no member of this job");
  }
  return ChannelHello::decode(body.substr(kHelloMagic.size(), kChannelHelloBytes));
}

std::string make_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello) {
  return std::string(kWelcomeMagic) + proof(token, signed_text("welcome", challenge, hello));
}

Status check_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello,
                         std::string_view welcome) {
  if (!equal_secrets(welcome, make_tcp_welcome(token, challenge, hello))) {
    return permission_denied("tcp transport: the acceptor's proof is wrong: it is not the rank that was sought");
  }
  return Status::ok();
}

std::string TcpEndpoint::encode() const {
  WireWriter writer;
  writer.bytes(token);
  writer.bytes(network_scope);
  writer.u32(static_cast<std::uint32_t>(addresses.size()));
  for (const Address& address : addresses) {
    writer.bytes(address.text);
    writer.u8(address.loopback ? 1 : 0);
  }
  return writer.take();
}

Result<TcpEndpoint> TcpEndpoint::decode(std::string_view text) {
  WireReader reader(text);
  TcpEndpoint endpoint;
  endpoint.token = reader.string();
  endpoint.network_scope = reader.string();
  const std::uint32_t count = reader.u32();
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) {
    Address address;
    address.text = reader.string();
    address.loopback = reader.u8() != 0;
    endpoint.addresses.push_back(std::move(address));
  }
  if (!reader.finished()) return data_loss("tcp transport: malformed advertisement");
  return endpoint;
}

std::vector<std::string> TcpEndpoint::reachable_from(std::string_view scope) const {
  const bool same_scope = scope == network_scope;
  std::vector<std::string> reachable;
  for (const Address& address : addresses) {
    if (address.loopback && same_scope) reachable.push_back(address.text);
  }
  for (const Address& address : addresses) {
    if (!address.loopback) reachable.push_back(address.text);
  }
  return reachable;
}

}  // namespace trireme
