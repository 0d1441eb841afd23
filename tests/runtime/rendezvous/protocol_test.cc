#include "runtime/rendezvous/protocol.h"

#include <random>

#include <gtest/gtest.h>

namespace trireme::store {
namespace {

Hello some_hello() {
  Hello hello;
  hello.job_id = "job";
  hello.world_size = 4;
  hello.epoch = 7;
  hello.rank = 2;
  hello.nonce = std::string(kNonceBytes, 'n');
  hello.host = "node1";
  hello.host_identity = "boot/net";
  hello.pid = 4711;
  return hello;
}

TEST(FrameReader, CutsAnyChunkingIntoTheSameFrames) {
  std::string stream(kPreamble);
  for (std::size_t i = 0; i < 20; ++i) stream += encode_frame(MessageType::put, i, std::string(i * 37, 'x'));
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    FrameReader reader(kMaxRequestBytes, true);
    std::size_t position = 0;
    std::uint64_t frames = 0;
    while (position < stream.size()) {
      const std::size_t chunk = std::min<std::size_t>(stream.size() - position, 1 + random() % 700);
      reader.append(stream.data() + position, chunk);
      position += chunk;
      while (true) {
        auto frame = reader.next();
        ASSERT_TRUE(frame.is_ok());
        if (!frame->has_value()) break;
        EXPECT_EQ((*frame)->id, frames);
        EXPECT_EQ((*frame)->payload, std::string(frames * 37, 'x'));
        ++frames;
      }
    }
    EXPECT_EQ(frames, 20u);
  }
}

TEST(FrameReader, JunkIsKnownByItsFirstBytes) {
  FrameReader reader(kMaxHandshakeFrameBytes, true);
  reader.append("G", 1);
  const auto frame = reader.next();
  ASSERT_FALSE(frame.is_ok());
  EXPECT_NE(frame.status().message().find("\"G\""), std::string::npos);
}

TEST(FrameReader, LengthsAreBounded) {
  FrameReader reader(100, false);
  std::string frame = encode_frame(MessageType::get, 1, std::string(92, 'x'));
  reader.append(frame.data(), frame.size());
  EXPECT_EQ(reader.next().status().code(), StatusCode::invalid_argument);
  FrameReader tiny(100, false);
  tiny.append("\x08\0\0\0", 4);
  EXPECT_EQ(tiny.next().status().code(), StatusCode::invalid_argument);
}

TEST(Hello, RoundTrips) {
  const auto decoded = Hello::decode(some_hello().encode());
  ASSERT_TRUE(decoded.is_ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded->encode(), some_hello().encode());
  EXPECT_EQ(decoded->rank, 2u);
  EXPECT_EQ(decoded->pid, 4711);
}

TEST(Hello, EveryFieldIsValidated) {
  const auto refused = [](auto change) {
    Hello hello = some_hello();
    change(hello);
    return !Hello::decode(hello.encode()).is_ok();
  };
  EXPECT_TRUE(refused([](Hello& h) { h.version = kProtocolVersion + 1; }));
  EXPECT_TRUE(refused([](Hello& h) { h.job_id = std::string(kMaxTextBytes + 1, 'j'); }));
  EXPECT_TRUE(refused([](Hello& h) { h.host = std::string(kMaxTextBytes + 1, 'j'); }));
  EXPECT_TRUE(refused([](Hello& h) { h.host_identity = std::string(kMaxTextBytes + 1, 'j'); }));
  EXPECT_TRUE(refused([](Hello& h) { h.nonce.pop_back(); }));
  EXPECT_TRUE(refused([](Hello& h) { h.world_size = 0; }));
  EXPECT_TRUE(refused([](Hello& h) { h.world_size = kMaxWorldSize + 1; }));
  EXPECT_TRUE(refused([](Hello& h) { h.rank = 4; }));
  EXPECT_FALSE(refused([](Hello& h) { h.resume = true; }));
  const std::string whole = some_hello().encode();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(Hello::decode(whole.substr(0, bytes)).is_ok()) << bytes;
  }
  EXPECT_FALSE(Hello::decode(whole + "x").is_ok());
}

TEST(Hello, AnotherVersionIsNamed) {
  Hello hello = some_hello();
  hello.version = 9;
  const Status status = Hello::decode(hello.encode()).status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("version 9"), std::string::npos);
  // A later version may have other fields after the first.
  EXPECT_EQ(Hello::decode(std::string("\x09\0zzz", 5)).status().code(), StatusCode::unsupported);
}

TEST(Proof, DependsOnEveryInput) {
  const std::string proof = make_proof("secret", ProofRole::store, "a", "b", "hello");
  EXPECT_EQ(proof.size(), 32u);
  EXPECT_EQ(proof, make_proof("secret", ProofRole::store, "a", "b", "hello"));
  EXPECT_NE(proof, make_proof("Secret", ProofRole::store, "a", "b", "hello"));
  EXPECT_NE(proof, make_proof("secret", ProofRole::client, "a", "b", "hello"));
  EXPECT_NE(proof, make_proof("secret", ProofRole::store, "b", "a", "hello"));
  EXPECT_NE(proof, make_proof("secret", ProofRole::store, "ab", "", "hello"));
  EXPECT_NE(proof, make_proof("secret", ProofRole::store, "a", "b", "hellp"));
  EXPECT_NE(proof, make_proof("", ProofRole::store, "a", "b", "hello"));
  EXPECT_TRUE(equal_in_constant_time(proof, proof));
  EXPECT_FALSE(equal_in_constant_time(proof, proof.substr(1)));
}

TEST(Values, StatusesFailuresAndRepliesRoundTrip) {
  EXPECT_EQ(decode_status(encode_status(stale_epoch("old"))).to_string(), "stale_epoch: old");
  EXPECT_EQ(decode_status(encode_status(Status::ok())).code(), StatusCode::data_loss);
  EXPECT_EQ(*decode_reply(encode_reply(Status::ok(), "value")), "value");
  EXPECT_EQ(decode_reply(encode_reply(mismatch("no"), "")).status().to_string(), "mismatch: no");
  Failure failure;
  failure.status = peer_dead("rank 3");
  failure.culprit_rank = 3;
  failure.context = 99;
  const auto decoded = decode_failure(encode_failure(failure));
  EXPECT_EQ(decoded->culprit_rank, 3);
  EXPECT_EQ(decoded->context, 99u);
  EXPECT_EQ(decoded->status.to_string(), "peer_dead: rank 3");
  failure.culprit_rank = -2;
  EXPECT_FALSE(decode_failure(encode_failure(failure)).is_ok());
}

TEST(Values, DecodersSurviveAnyBytes) {
  std::mt19937 random(11);
  PeerInfo peer;
  peer.host = "a";
  const std::vector<std::string> seeds = {some_hello().encode(), encode_reply(mismatch("m"), "x"),
                                          encode_table({peer, peer, peer}), std::string(40, '\xff')};
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (unsigned i = random() % 5; i > 0; --i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 3 == 0) bytes.resize(random() % (bytes.size() + 1));
    (void)Hello::decode(bytes);
    (void)decode_status(bytes);
    (void)decode_reply(bytes);
    (void)decode_failure(bytes);
    const auto table = decode_table(bytes);
    EXPECT_TRUE(!table.is_ok() || table->size() <= bytes.size() / 16);
  }
}

TEST(Table, LocalAndNodeRanksFollowHosts) {
  std::vector<PeerInfo> peers(6);
  const char* hosts[] = {"b", "a", "b", "c", "a", "b"};
  for (int rank = 0; rank < 6; ++rank) {
    peers[rank].rank = rank;
    peers[rank].host_identity = hosts[rank];
  }
  const auto table = decode_table(encode_table(peers));
  ASSERT_TRUE(table.is_ok());
  const int nodes[] = {0, 1, 0, 2, 1, 0};
  const int locals[] = {0, 0, 1, 0, 1, 2};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ((*table)[rank].rank, rank);
    EXPECT_EQ((*table)[rank].node_rank, nodes[rank]);
    EXPECT_EQ((*table)[rank].local_rank, locals[rank]);
  }
}

}  // namespace
}  // namespace trireme::store
