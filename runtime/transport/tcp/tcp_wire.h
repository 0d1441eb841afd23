// The bytes of the tcp transport's handshake (docs/formats/tcp.md): three messages of
// fixed size, after which the socket carries nothing but the channel's bytes.
//
//   acceptor  -> connector   challenge: magic, nonce
//   connector -> acceptor    hello: magic, channel, nonce, proof over challenge and hello
//   acceptor  -> connector   welcome: magic, proof over challenge and hello
//
// The key of both proofs is the acceptor's token, which its advertisement gives to the
// members of the job. A hello that is refused is answered by closing the connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/transport/api/handshake.h"

namespace trireme {

inline constexpr std::size_t kTcpNonceBytes = 32;
inline constexpr std::size_t kTcpProofBytes = 32;
inline constexpr std::size_t kTcpChallengeBytes = 8 + kTcpNonceBytes;
inline constexpr std::size_t kTcpHelloBytes = 8 + kChannelHelloBytes + kTcpNonceBytes + kTcpProofBytes;
inline constexpr std::size_t kTcpWelcomeBytes = 8 + kTcpProofBytes;

std::string make_tcp_challenge();
// Errors: data_loss when it is no challenge of this version.
Status check_tcp_challenge(std::string_view challenge);
std::string make_tcp_hello(std::string_view token, std::string_view challenge, const ChannelHello& channel);
// Errors: data_loss, permission_denied.
Result<ChannelHello> check_tcp_hello(std::string_view token, std::string_view challenge, std::string_view hello);
std::string make_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello);
Status check_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello,
                         std::string_view welcome);

// How peers reach a rank.
struct TcpEndpoint {
  std::string token;
  std::string network_scope;
  struct Address {
    std::string text;  // "10.0.0.2:4711"
    bool loopback = false;
  };
  std::vector<Address> addresses;

  std::string encode() const;
  static Result<TcpEndpoint> decode(std::string_view text);
  // The addresses worth trying from `scope`: loopback first within it, never outside.
  std::vector<std::string> reachable_from(std::string_view scope) const;
};

}  // namespace trireme
