// The bytes of the tcp transport's handshake (docs/formats/tcp.md): messages of fixed
// size, after which the socket carries nothing but the channel's bytes.
//
//   acceptor  -> connector   challenge: magic, nonce
//   connector -> acceptor    hello: magic, channel, stream, nonce, proof over challenge and hello
//   acceptor  -> connector   welcome: magic, proof over challenge and hello
//                            or refusal: magic, reason
//
// The key of both proofs is the acceptor's token, which its advertisement gives to the
// members of the job. A refusal is proved by nothing: it only explains.
// Thread safety: pure functions and values. Whatever bytes come in, decoding returns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/transport/api/handshake.h"

namespace trireme {

inline constexpr std::size_t kTcpMagicBytes = 8;
inline constexpr std::size_t kTcpTokenBytes = 32;
inline constexpr std::size_t kTcpNonceBytes = 32;
inline constexpr std::size_t kTcpProofBytes = 32;
inline constexpr std::size_t kTcpChallengeBytes = kTcpMagicBytes + kTcpNonceBytes;
inline constexpr std::size_t kTcpHelloBytes = kTcpMagicBytes + kChannelHelloBytes + 2 + kTcpNonceBytes + kTcpProofBytes;
inline constexpr std::size_t kTcpWelcomeBytes = kTcpMagicBytes + kTcpProofBytes;

struct TcpHello {
  ChannelHello channel;
  unsigned stream = 0;  // 0 .. streams - 1
  unsigned streams = 1;
  bool operator==(const TcpHello&) const = default;
};

std::string make_tcp_challenge();
// Errors: data_loss when it is no challenge of this version, saying what it is.
Status check_tcp_challenge(std::string_view challenge);
std::string make_tcp_hello(std::string_view token, std::string_view challenge, const TcpHello& hello);
// Is what has come so far the beginning of a hello of this version? Errors: mismatch for
// another version, data_loss for anything else.
Status check_tcp_hello_begin(std::string_view begin);
// Errors: mismatch, data_loss, permission_denied saying who the sender claims to be.
Result<TcpHello> check_tcp_hello(std::string_view token, std::string_view challenge, std::string_view hello);
std::string make_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello);
// As long as a welcome; carries the code of `why`.
std::string make_tcp_refusal(const Status& why);
// Errors: permission_denied; for a refusal, its code.
Status check_tcp_welcome(std::string_view token, std::string_view challenge, std::string_view hello,
                         std::string_view welcome);

// How peers reach a rank.
struct TcpEndpoint {
  std::string token;
  std::string network_scope;
  unsigned streams = 0;  // 0: as the link asks for.
  struct Address {
    std::string text;  // "10.0.0.2:4711"; link-local ones without a scope id.
    std::string interface;
    std::uint32_t speed_mbit = 0;  // 0: unknown.
    bool loopback = false;
    bool operator==(const Address&) const = default;
  };
  std::vector<Address> addresses;
  bool operator==(const TcpEndpoint&) const = default;

  std::string encode() const;
  // Errors: data_loss naming the field that cannot be.
  static Result<TcpEndpoint> decode(std::string_view text);
};

}  // namespace trireme
