// The services that listen, fed over real sockets by clients that are nearly right: they
// admit who proves membership, nobody else, and serve the job as before.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include <trireme/base/wire.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/api/local_worlds.h"
#include "runtime/rendezvous/api/store_server.h"
#include "runtime/rendezvous/protocol.h"
#include "runtime/transport/tcp/tcp_acceptor.h"
#include "runtime/transport/tcp/tcp_wire.h"
#include "tests/fuzz/mutator.h"

namespace trireme::test {
namespace {

constexpr int kClients = 300;
constexpr std::uint64_t kPatienceMs = 20'000;

Deadline patience() {
  return Deadline::after_ms(kPatienceMs);
}

// Sends in pieces; the other end may have closed already.
void send_in_pieces(Socket& socket, const std::string& text, Mutator& mutator) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t piece = std::min(text.size() - at, 1 + mutator.below(40));
    if (!socket.send_all(text.data() + at, piece, patience()).is_ok()) return;
    at += piece;
  }
}

// Reads until the other end closes. False when it does not.
bool closes(Socket& socket) {
  char byte;
  for (;;) {
    const Status status = socket.receive_all(&byte, 1, patience());
    if (!status.is_ok()) return status.code() != StatusCode::deadline_exceeded;
  }
}

// ---- the tcp transport's acceptor ----

class AcceptorFuzz : public testing::Test {
 protected:
  void SetUp() override {
    auto worlds = make_local_worlds(2);
    ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
    worlds_ = std::move(worlds).value();
    auto reactor = Reactor::start();
    ASSERT_TRUE(reactor.is_ok());
    reactor_ = *reactor;
    acceptor_ =
        std::make_shared<TcpAcceptor>(reactor_, worlds_[1], token_, [this](const ChannelKey& key, TcpLink link) {
          EXPECT_EQ(key.peer, 0);
          EXPECT_LT(link.stream, link.streams);
          ++delivered_;
        });
    const auto port = acceptor_->listen({"127.0.0.1"});
    ASSERT_TRUE(port.is_ok()) << port.status().to_string();
    address_ = {"127.0.0.1:" + std::to_string(*port)};
    acceptor_->start();
  }
  void TearDown() override {
    acceptor_->stop();
    reactor_->stop();
  }

  // A hello with fields of any value, rightly proved: what a member gone mad would send.
  std::string proved_hello(const std::string& challenge, Mutator& mutator, bool& right) {
    TcpHello hello{ChannelHello::from(*worlds_[0], {1, mutator.below(9), 0}), 0, 1};
    right = mutator.one_in(2);
    if (right) return make_tcp_hello(token_, challenge, hello);
    switch (mutator.below(5)) {
      case 0:
        hello.channel.job_hash += 1 + mutator.below(1000);
        break;
      case 1:
        hello.channel.from_rank = static_cast<std::uint32_t>(1 + mutator.below(1000));
        break;
      case 2:
        hello.channel.to_rank = mutator.one_in(2) ? 0 : static_cast<std::uint32_t>(2 + mutator.below(1000));
        break;
      case 3:
        hello.streams = static_cast<unsigned>(17 + mutator.below(200));
        break;
      default:
        hello.stream = static_cast<unsigned>(1 + mutator.below(200));
    }
    return make_tcp_hello(token_, challenge, hello);
  }

  void one_client(Mutator& mutator) {
    auto socket = Socket::connect(address_, patience());
    ASSERT_TRUE(socket.is_ok()) << socket.status().to_string();
    if (mutator.one_in(20)) return;  // Comes and goes.
    std::string challenge(kTcpChallengeBytes, '\0');
    ASSERT_TRUE(socket->receive_all(challenge.data(), challenge.size(), patience()).is_ok());
    bool right = false;
    std::string hello = proved_hello(challenge, mutator, right);
    if (mutator.one_in(2)) {
      Mutator fields(mutator.below(1u << 30),
                     {hello, proved_hello(challenge, mutator, right), "GET / HTTP/1.1\r\n\r\n"});
      hello = fields.next();
      right = check_tcp_hello(token_, challenge, hello.substr(0, kTcpHelloBytes)).is_ok() &&
              ChannelHello::decode(hello.substr(8, kChannelHelloBytes))->check_against(*worlds_[1]).is_ok();
    }
    send_in_pieces(*socket, hello, mutator);
    expected_ += right ? 1 : 0;
    if (right || hello.size() < kTcpHelloBytes) return;  // Too little: its time runs, or we close.
    EXPECT_TRUE(closes(*socket));
  }

  const std::string token_ = random_bytes(kTcpTokenBytes);
  std::vector<std::shared_ptr<World>> worlds_;
  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<TcpAcceptor> acceptor_;
  SocketAddress address_;
  std::atomic<int> delivered_{0};
  int expected_ = 0;
};

TEST_F(AcceptorFuzz, AdmitsMembersWithRightFieldsAndNobodyElse) {
  Mutator mutator(11, {""});
  for (int i = 0; i < kClients && !HasFailure(); ++i) one_client(mutator);
  // One more that is right comes after all of them.
  auto socket = Socket::connect(address_, patience());
  ASSERT_TRUE(socket.is_ok());
  std::string challenge(kTcpChallengeBytes, '\0');
  ASSERT_TRUE(socket->receive_all(challenge.data(), challenge.size(), patience()).is_ok());
  const std::string hello = make_tcp_hello(token_, challenge, {ChannelHello::from(*worlds_[0], {1, 1, 0}), 0, 1});
  ASSERT_TRUE(socket->send_all(hello.data(), hello.size(), patience()).is_ok());
  std::string welcome(kTcpWelcomeBytes, '\0');
  ASSERT_TRUE(socket->receive_all(welcome.data(), welcome.size(), patience()).is_ok());
  EXPECT_TRUE(check_tcp_welcome(token_, challenge, hello, welcome).is_ok());
  const Deadline deadline = patience();
  while (delivered_ < expected_ + 1 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(delivered_, expected_ + 1);
  EXPECT_GT(expected_, 20);
}

// ---- the store ----

std::string store_hello(const std::string& job, int size, int rank) {
  store::Hello hello;
  hello.job_id = job;
  hello.world_size = static_cast<std::uint32_t>(size);
  hello.epoch = 1;
  hello.rank = static_cast<std::uint32_t>(rank);
  hello.nonce = std::string(store::kNonceBytes, 'n');
  hello.host = "fuzz";
  hello.host_identity = "fuzz";
  hello.pid = 1;
  return hello.encode();
}

TEST(StoreFuzz, StrangersDisturbNoJob) {
  std::shared_ptr<StoreServer> server;
  LocalWorldsOptions options;
  options.server = &server;
  const auto worlds = make_local_worlds(2, options);
  ASSERT_TRUE(worlds.is_ok()) << worlds.status().to_string();
  const SocketAddress address{server->address()};
  const std::string hello =
      std::string(store::kPreamble) +
      store::encode_frame(store::MessageType::hello, 0, store_hello(worlds->front()->job_id(), 2, 0));
  const std::string proof =
      store::encode_frame(store::MessageType::proof, 0, std::string("\x20\0\0\0", 4) + std::string(32, 'p'));
  const std::string request = store::encode_frame(store::MessageType::put, 1, "key");
  Mutator mutator(12, {hello, hello + proof, hello + proof + request, std::string(store::kPreamble) + request});
  for (int i = 0; i < kClients; ++i) {
    auto socket = Socket::connect(address, patience());
    ASSERT_TRUE(socket.is_ok()) << socket.status().to_string();
    send_in_pieces(*socket, mutator.one_in(10) ? mutator.junk(200) : mutator.next(), mutator);
  }
  std::thread other([&] {
    const auto values = (*worlds)[1]->exchange("after", {0, 1}, "b", patience());
    EXPECT_TRUE(values.is_ok()) << values.status().to_string();
  });
  const auto values = (*worlds)[0]->exchange("after", {0, 1}, "a", patience());
  other.join();
  ASSERT_TRUE(values.is_ok()) << values.status().to_string();
  EXPECT_EQ(*values, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE((*worlds)[0]->failure().has_value());
}

// Becomes the only member of the store's job.
void become_member(Socket& socket, const std::string& job, std::int64_t epoch) {
  store::Hello hello = *store::Hello::decode(store_hello(job, 1, 0));
  hello.epoch = epoch;
  const std::string payload = hello.encode();
  const std::string opening =
      std::string(store::kPreamble) + store::encode_frame(store::MessageType::hello, 0, payload);
  ASSERT_TRUE(socket.send_all(opening.data(), opening.size(), patience()).is_ok());
  std::string header(store::kFrameOverheadBytes, '\0');
  ASSERT_TRUE(socket.receive_all(header.data(), header.size(), patience()).is_ok());
  std::uint32_t length = 0;
  std::memcpy(&length, header.data(), 4);
  std::string challenge(length - 9, '\0');
  ASSERT_TRUE(socket.receive_all(challenge.data(), challenge.size(), patience()).is_ok());
  WireReader reader(challenge);
  WireWriter writer;
  writer.bytes(make_proof("secret", store::ProofRole::client, hello.nonce, reader.string(), payload));
  const std::string frame = store::encode_frame(store::MessageType::proof, 0, writer.data());
  ASSERT_TRUE(socket.send_all(frame.data(), frame.size(), patience()).is_ok());
  ASSERT_TRUE(socket.receive_all(header.data(), header.size(), patience()).is_ok());
  ASSERT_EQ(header[4], static_cast<char>(store::MessageType::welcome));
}

TEST(StoreFuzz, AMemberGoneMadDoesNotTakeTheStoreWithIt) {
  StoreServerOptions options;
  options.job_id = "mad";
  options.secret = "secret";
  options.world_size = 1;
  auto server = StoreServer::start(options);
  ASSERT_TRUE(server.is_ok()) << server.status().to_string();
  const auto request = [](store::MessageType type, auto... fields) {
    WireWriter writer;
    (writer.bytes(fields), ...);
    return store::encode_frame(type, 7, writer.data());
  };
  WireWriter exchange;
  exchange.bytes("name");
  exchange.u32(1);
  exchange.u32(0);
  exchange.bytes("value");
  std::vector<std::string> corpus = {
      request(store::MessageType::put, "key", "value"),
      request(store::MessageType::get, "key"),
      request(store::MessageType::add, "counter") + std::string(8, '\1'),
      store::encode_frame(store::MessageType::exchange, 8, exchange.data()),
      request(store::MessageType::notify, "topic", "value"),
      request(store::MessageType::activity_query),
      request(store::MessageType::leave),
      store::encode_frame(store::MessageType::report_failure, 9, store::encode_failure({peer_dead("x"), 0, 1}))};
  corpus.push_back(corpus[0] + corpus[1] + corpus[3] + corpus[5]);
  Mutator mutator(13, corpus);
  for (int epoch = 1; epoch <= kClients / 3; ++epoch) {
    auto socket = Socket::connect({(*server)->address()}, patience());
    ASSERT_TRUE(socket.is_ok()) << socket.status().to_string();
    ASSERT_NO_FATAL_FAILURE(become_member(*socket, "mad", epoch));
    for (int i = 0; i < 5; ++i) send_in_pieces(*socket, mutator.next(), mutator);
    socket->close();
    EXPECT_FALSE((*server)->describe_membership().empty());
    (*server)->begin_epoch(epoch + 1, 1);
  }
  EXPECT_TRUE((*server)->wait_until_empty(patience()));
}

}  // namespace
}  // namespace trireme::test
