// Clients that must not get in, and what the members notice of them: nothing.
#include <random>
#include <thread>

#include <poll.h>

#include <gtest/gtest.h>

#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/api/local_worlds.h"
#include "runtime/rendezvous/api/store_server.h"
#include "runtime/rendezvous/store_session.h"

namespace trireme {
namespace {

Deadline soon() {
  return Deadline::after_ms(60'000);
}

class Refusal : public testing::Test {
 protected:
  static constexpr int kSize = 3;

  void SetUp() override {
    StoreServerOptions options;
    options.job_id = "job";
    options.secret = "secret";
    options.world_size = kSize;
    options.epoch = 5;
    server_ = StoreServer::start(options).value();
  }

  WorldOptions rank(int number) const {
    WorldOptions options;
    options.rank = number;
    options.size = kSize;
    options.store_address = server_->address();
    options.job_id = "job";
    options.secret = "secret";
    options.epoch = 5;
    return options;
  }

  std::vector<std::shared_ptr<World>> join_all() {
    std::vector<std::shared_ptr<World>> worlds(kSize);
    std::vector<std::thread> threads;
    for (int r = 0; r < kSize; ++r) threads.emplace_back([&, r] { worlds[r] = World::join(rank(r)).value(); });
    for (std::thread& thread : threads) thread.join();
    return worlds;
  }

  Socket connect() { return Socket::connect(SocketAddress{server_->address()}, soon()).value(); }

  // Everything the store sends until it closes.
  static std::string read_all(Socket& socket) {
    std::string all;
    char buffer[4096];
    while (true) {
      const auto got = socket.receive_some(buffer, sizeof(buffer));
      if (!got.is_ok()) return all;
      all.append(buffer, *got);
      if (*got > 0) continue;
      pollfd entry{socket.fd(), POLLIN, 0};
      ::poll(&entry, 1, -1);
    }
  }

  std::unique_ptr<StoreServer> server_;
};

TEST_F(Refusal, WrongSecretJobEpochAndSizeAreNamed) {
  const auto refused = [&](auto change) {
    WorldOptions options = rank(1);
    change(options);
    return World::join(options).status();
  };
  EXPECT_EQ(refused([](WorldOptions& o) { o.secret = "guess"; }).code(), StatusCode::permission_denied);
  const Status foreign = refused([](WorldOptions& o) { o.job_id = "other"; });
  EXPECT_EQ(foreign.code(), StatusCode::not_found);
  EXPECT_NE(foreign.message().find("\"other\""), std::string::npos) << foreign.message();
  const Status stale = refused([](WorldOptions& o) { o.epoch = 4; });
  EXPECT_EQ(stale.code(), StatusCode::stale_epoch);
  EXPECT_NE(stale.message().find("epoch 4"), std::string::npos);
  EXPECT_NE(stale.message().find("epoch 5"), std::string::npos);
  EXPECT_EQ(refused([](WorldOptions& o) { o.size = 2; }).code(), StatusCode::mismatch);
  const auto worlds = join_all();
  EXPECT_EQ(refused([](WorldOptions&) {}).code(), StatusCode::already_exists);
  EXPECT_TRUE(worlds[1]->put("k", "v").is_ok());
}

TEST_F(Refusal, MissingRanksAreListedToEverybody) {
  std::vector<Status> ended(2);
  std::vector<std::thread> threads;
  for (const int number : {0, 1}) {
    threads.emplace_back([&, number] {
      WorldOptions options = rank(number);
      // The second would wait long: it learns from the first.
      options.join_timeout_ms = number == 0 ? 300 : 60'000;
      ended[number] = World::join(options).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended[0].code(), StatusCode::deadline_exceeded);
  EXPECT_NE(ended[0].message().find("missing: "), std::string::npos) << ended[0].message();
  EXPECT_NE(ended[0].message().find("rank 2: never heard from"), std::string::npos) << ended[0].message();
  EXPECT_EQ(ended[0].message(), ended[1].message());
}

TEST_F(Refusal, AnotherProtocolVersionIsToldSo) {
  store::Hello hello;
  hello.version = 42;
  hello.world_size = kSize;
  hello.nonce = std::string(store::kNonceBytes, 'n');
  Socket socket = connect();
  const std::string bytes =
      std::string(store::kPreamble) + store::encode_frame(store::MessageType::hello, 0, hello.encode());
  ASSERT_TRUE(socket.send_all(bytes.data(), bytes.size(), soon()).is_ok());
  store::FrameReader reader(store::kMaxReplyBytes, false);
  const std::string answer = read_all(socket);
  reader.append(answer.data(), answer.size());
  const auto frame = reader.next().value();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->type, store::MessageType::refused);
  EXPECT_EQ(store::decode_status(frame->payload).code(), StatusCode::unsupported);
}

// A client with a proof made from another secret, which World itself would not send.
TEST_F(Refusal, AWrongProofIsRefused) {
  store::Hello hello;
  hello.job_id = "job";
  hello.world_size = kSize;
  hello.epoch = 5;
  hello.nonce = std::string(store::kNonceBytes, 'n');
  Socket socket = connect();
  std::string bytes = std::string(store::kPreamble) + store::encode_frame(store::MessageType::hello, 0, hello.encode());
  bytes += store::encode_frame(store::MessageType::proof, 0, std::string("\x20\0\0\0", 4) + std::string(32, 'p'));
  ASSERT_TRUE(socket.send_all(bytes.data(), bytes.size(), soon()).is_ok());
  store::FrameReader reader(store::kMaxReplyBytes, false);
  const std::string answer = read_all(socket);
  reader.append(answer.data(), answer.size());
  EXPECT_EQ(reader.next().value()->type, store::MessageType::challenge);
  const auto refused = reader.next().value();
  ASSERT_TRUE(refused);
  EXPECT_EQ(store::decode_status(refused->payload).code(), StatusCode::permission_denied);
  EXPECT_EQ(join_all().size(), static_cast<std::size_t>(kSize));
}

TEST_F(Refusal, JunkDisturbsNobody) {
  const auto worlds = join_all();
  std::mt19937 random(3);
  const std::string greeting =
      std::string(store::kPreamble) + store::encode_frame(store::MessageType::hello, 0, std::string(60, 'h'));
  for (int client = 0; client < 150; ++client) {
    Socket socket = connect();
    std::string bytes = random() % 2 == 0 ? greeting : std::string();
    const std::size_t junk = random() % 3000;
    for (std::size_t i = 0; i < junk; ++i) bytes += static_cast<char>(random());
    for (unsigned flips = random() % 4; flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    (void)socket.send_all(bytes.data(), bytes.size(), soon());  // The store may close in the middle.
    if (random() % 4 == 0 && junk > 100) read_all(socket);
  }
  Socket http = connect();
  ASSERT_TRUE(http.send_all("GET / HTTP/1.1\r\n\r\n", 18, soon()).is_ok());
  read_all(http);
  for (const auto& world : worlds) {
    EXPECT_TRUE(world->put("k", "v").is_ok());
    EXPECT_FALSE(world->failure());
  }
}

TEST_F(Refusal, AnOversizeFrameIsNotAwaited) {
  Socket socket = connect();
  const std::string bytes = std::string(store::kPreamble) + std::string("\xff\xff\xff\x7f", 4) + std::string(9, 'x');
  ASSERT_TRUE(socket.send_all(bytes.data(), bytes.size(), soon()).is_ok());
  const std::string answer = read_all(socket);
  EXPECT_NE(answer.find("a frame of 2147483647 bytes"), std::string::npos);
}

TEST_F(Refusal, AMemberThatSendsNonsenseIsDead) {
  store::ClientIdentity identity;
  identity.rank = 0;
  identity.size = kSize;
  identity.epoch = 5;
  identity.job_id = "job";
  identity.secret = "secret";
  identity.host = "h";
  store::StoreSession session = store::open_session({server_->address()}, identity, soon()).value();
  ASSERT_TRUE(session.socket.send_all("\xff\xff\xff\xff", 4, soon()).is_ok());
  const Status other = World::join(rank(1)).status();
  EXPECT_EQ(other.code(), StatusCode::peer_dead);
  EXPECT_NE(other.message().find("rank 0"), std::string::npos) << other.message();
}

TEST(Reaching, AHostThatDoesNotResolveIsNamed) {
  WorldOptions options;
  options.rank = 0;
  options.size = 2;
  options.store_address = "no-such-host.invalid:4000";
  const Status status = World::join(options).status();
  EXPECT_FALSE(status.is_ok());
  EXPECT_NE(status.message().find("no-such-host.invalid"), std::string::npos) << status.message();
}

TEST(Reaching, NobodyListensUntilTheDeadline) {
  const std::string address = Listener::listen(SocketAddress{"127.0.0.1:0"}).value().address().text;
  WorldOptions options;
  options.rank = 1;
  options.size = 2;
  options.job_id = "lonely";
  options.join_timeout_ms = 100;
  for (const std::string& addresses : {address, address + ",no-such-host.invalid:1"}) {
    options.store_address = addresses;
    const Status status = World::join(options).status();
    EXPECT_EQ(status.code(), StatusCode::deadline_exceeded) << status.to_string();
    for (const char* word : {"rank 1 of 2", "lonely", address.c_str()}) {
      EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    }
  }
}

TEST(Reaching, AnotherServiceIsToldFromAStore) {
  Listener listener = Listener::listen(SocketAddress{"127.0.0.1:0"}).value();
  std::thread service([&] {
    Socket socket = listener.accept(soon()).value();
    (void)socket.send_all("HTTP/1.1 400 Bad Request\r\n\r\n", 28, soon());
    char byte = 0;
    while (socket.receive_all(&byte, 1, soon()).is_ok()) {
    }
  });
  WorldOptions options;
  options.rank = 0;
  options.size = 2;
  options.store_address = listener.address().text;
  const Status status = World::join(options).status();
  service.join();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_NE(status.message().find("is not a Trireme store"), std::string::npos) << status.message();
}

// What srun and torchrun ranks do: the wanted store is behind silent, foreign and absent ones.
TEST(Reaching, TheRightStoreIsFoundAmongOthers) {
  const auto start = [](const std::string& job) {
    StoreServerOptions options;
    options.job_id = job;
    options.world_size = 1;
    return StoreServer::start(options).value();
  };
  const auto foreign = start("other");
  const auto right = start("mine");
  const Listener silent = Listener::listen(SocketAddress{"127.0.0.1:0"}).value();
  WorldOptions options;
  options.rank = 0;
  options.size = 1;
  options.job_id = "mine";
  options.epoch = 1;
  options.store_address = foreign->address() + ",127.0.0.1:1," + silent.address().text + "," + right->address();
  const auto world = World::join(options);
  ASSERT_TRUE(world.is_ok()) << world.status().to_string();
  EXPECT_TRUE((*world)->put("k", "v").is_ok());
}

}  // namespace
}  // namespace trireme
