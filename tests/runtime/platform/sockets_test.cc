#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <thread>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"

namespace trireme {
namespace {

Deadline soon() {
  return Deadline::after_ms(30'000);
}

std::vector<std::string> listen_addresses() {
  std::vector<std::string> addresses = {"127.0.0.1:0", "unix:@trireme-test-" + random_hex(8)};
  if (Listener::listen({"[::1]:0"}).is_ok()) addresses.push_back("[::1]:0");
  return addresses;
}

TEST(SocketAddress, ParsesWhatItPrints) {
  for (const char* text : {"10.0.0.1:4000", "[::1]:80", "unix:/tmp/x", "unix:@abstract"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address.is_ok()) << address.status().to_string();
    EXPECT_EQ(address->text, text);
  }
  const auto v6 = SocketAddress::parse("[::1]:80");
  EXPECT_EQ(v6->host(), "::1");
  EXPECT_EQ(v6->port(), 80);
  EXPECT_EQ(SocketAddress::parse("localhost:9")->text, "127.0.0.1:9");
  EXPECT_EQ(SocketAddress::parse("unix:@a")->port(), 0);
}

TEST(SocketAddress, KeepsLinkLocalScopes) {
  const auto address = SocketAddress::parse("[fe80::1%lo]:4000");
  ASSERT_TRUE(address.is_ok()) << address.status().to_string();
  EXPECT_EQ(address->text, "[fe80::1%lo]:4000");
  EXPECT_EQ(address->host(), "fe80::1%lo");
}

TEST(SocketAddress, RefusesWhatIsNone) {
  for (const char* text : {"", "host", "host:", ":1", "host:x", "host:65536", "host:-1", "::1:80", "unix:", "unix:@"}) {
    EXPECT_EQ(SocketAddress::parse(text).status().code(), StatusCode::invalid_argument) << text;
  }
  EXPECT_EQ(SocketAddress::parse("unix:/" + std::string(200, 'x')).status().code(), StatusCode::invalid_argument);
}

TEST(Sockets, CarryBytesBothWaysOnEveryKind) {
  for (const std::string& text : listen_addresses()) {
    Listener listener = Listener::listen({text}).value();
    std::string big(3'000'000, 'b');
    std::thread client([&] {
      Socket socket = Socket::connect(listener.address(), soon()).value();
      EXPECT_TRUE(socket.send_all(big.data(), big.size(), soon()).is_ok());
      char answer[5];
      EXPECT_TRUE(socket.receive_all(answer, 5, soon()).is_ok());
      EXPECT_EQ(std::string(answer, 5), "hello");
      EXPECT_EQ(socket.peer(), listener.address().text);
    });
    Socket server = listener.accept(soon()).value();
    std::string got(big.size(), ' ');
    EXPECT_TRUE(server.receive_all(got.data(), got.size(), soon()).is_ok());
    EXPECT_EQ(got, big);
    EXPECT_TRUE(server.send_all("hello", 5, soon()).is_ok());
    client.join();
    EXPECT_EQ(server.receive_all(got.data(), 1, soon()).code(), StatusCode::peer_dead) << text;
  }
}

TEST(Sockets, ConnectWaitsForTheListener) {
  const SocketAddress address{"unix:@trireme-test-" + random_hex(8)};
  std::thread client([&] { EXPECT_TRUE(Socket::connect(address, soon()).is_ok()); });
  system_clock().sleep_ns(20'000'000);
  Listener listener = Listener::listen(address).value();
  EXPECT_TRUE(listener.accept(soon()).is_ok());
  client.join();
}

TEST(Sockets, EveryDeadlineEnds) {
  const int port = Listener::listen({"127.0.0.1:0"})->address().port();
  const auto refused = Socket::connect({"127.0.0.1:" + std::to_string(port)}, Deadline::after_ms(20));
  EXPECT_EQ(refused.status().code(), StatusCode::deadline_exceeded);
  EXPECT_NE(refused.status().message().find("127.0.0.1:" + std::to_string(port)), std::string::npos);

  Listener listener = Listener::listen({"127.0.0.1:0"}).value();
  EXPECT_EQ(listener.accept(Deadline::after_ms(10)).status().code(), StatusCode::deadline_exceeded);
  EXPECT_FALSE(listener.try_accept()->valid());

  auto pair = connected_pair().value();
  char byte = 0;
  EXPECT_EQ(pair.first.receive_all(&byte, 1, Deadline::after_ms(10)).code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(*pair.first.receive_some(&byte, 1), 0U);
  const std::string big(64 << 20, 'x');
  EXPECT_EQ(pair.first.send_all(big.data(), big.size(), Deadline::after_ms(10)).code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(receive_descriptor(pair.first, Deadline::after_ms(10)).status().code(), StatusCode::deadline_exceeded);
}

TEST(Sockets, AClosedPeerIsDeadAndRaisesNoSignal) {
  auto pair = connected_pair().value();
  pair.second.close();
  Status status;
  for (int i = 0; i < 10 && status.is_ok(); ++i) status = pair.first.send_all("x", 1, soon());
  EXPECT_EQ(status.code(), StatusCode::peer_dead);
  char byte = 0;
  EXPECT_EQ(pair.first.receive_some(&byte, 1).status().code(), StatusCode::peer_dead);
}

TEST(Sockets, DescriptorsTravelWithTheirNotes) {
  auto pair = connected_pair().value();
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const UniqueFd reader(pipe_fds[0]);
  UniqueFd writer(pipe_fds[1]);
  ASSERT_TRUE(pair.first.send_all("before", 6, soon()).is_ok());
  ASSERT_TRUE(send_descriptor(pair.first, writer.get(), "the writing end", soon()).is_ok());
  ASSERT_TRUE(send_descriptor(pair.first, writer.get(), "", soon()).is_ok());
  ASSERT_TRUE(pair.first.send_all("after", 5, soon()).is_ok());
  writer.reset();

  char text[6];
  ASSERT_TRUE(pair.second.receive_all(text, 6, soon()).is_ok());
  auto first = receive_descriptor(pair.second, soon());
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  EXPECT_EQ(first->second, "the writing end");
  auto second = receive_descriptor(pair.second, soon());
  EXPECT_EQ(second->second, "");
  ASSERT_TRUE(pair.second.receive_all(text, 5, soon()).is_ok());
  EXPECT_EQ(std::string(text, 5), "after");
  ASSERT_EQ(::write(first->first.get(), "z", 1), 1);
  ASSERT_EQ(::read(reader.get(), text, 1), 1);
  EXPECT_EQ(text[0], 'z');
}

TEST(Sockets, BytesWithoutADescriptorAreRefused) {
  auto pair = connected_pair().value();
  ASSERT_TRUE(pair.first.send_all("\0\0\0\0", 4, soon()).is_ok());
  EXPECT_EQ(receive_descriptor(pair.second, soon()).status().code(), StatusCode::data_loss);
}

TEST(Sockets, ASocketFileOfADeadProcessIsReplaced) {
  const std::string folder = make_temporary_directory("trireme-socket-").value();
  const SocketAddress address{"unix:" + folder + "/s"};
  {
    const auto first = Listener::listen(address);
    ASSERT_TRUE(first.is_ok());
  }
  const auto second = Listener::listen(address);
  ASSERT_TRUE(second.is_ok()) << second.status().to_string();
  EXPECT_EQ(Listener::listen(address).status().code(), StatusCode::already_exists) << "a live one is kept";
  EXPECT_TRUE(remove_tree(folder).is_ok());
}

TEST(Sockets, FaultsAreInjected) {
  auto pair = connected_pair().value();
  const ScopedFaultInjector injector([](std::string_view site) { return site == "socket.send" ? ECONNRESET : 0; });
  EXPECT_EQ(pair.first.send_all("x", 1, soon()).code(), StatusCode::peer_dead);
}

TEST(Sockets, InterfacesEndWithLoopback) {
  const auto interfaces = interface_addresses();
  ASSERT_TRUE(interfaces.is_ok());
  bool seen_loopback = false;
  for (const InterfaceAddress& entry : *interfaces) {
    EXPECT_FALSE(entry.address.empty());
    EXPECT_TRUE(entry.loopback || !seen_loopback);
    seen_loopback = seen_loopback || entry.loopback;
  }
}

TEST(Sockets, LocalAddressIsWhatThePeerSees) {
  Listener listener = Listener::listen({"127.0.0.1:0"}).value();
  Socket client = Socket::connect(listener.address(), soon()).value();
  Socket server = listener.accept(soon()).value();
  EXPECT_EQ(client.local_address()->text, server.peer());
  EXPECT_EQ(server.local_address()->text, listener.address().text);
  client.shutdown();
  char byte = 0;
  EXPECT_EQ(server.receive_all(&byte, 1, soon()).code(), StatusCode::peer_dead);
}

}  // namespace
}  // namespace trireme
