#include "runtime/transport/cuda_ipc/cuda_ipc_server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include <trireme/telemetry/log.h>

#include "runtime/platform/api/process.h"
#include "runtime/transport/api/handshake.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_wire.h"

namespace trireme {
namespace {

constexpr std::uint64_t kRequestMs = 10'000;
constexpr std::uint64_t kAcceptRetryMs = 100;
constexpr std::uint64_t kAnswerMs = 1'000;  // A fresh socket takes the few bytes at once.
constexpr std::size_t kMostReasonBytes = 255;

}  // namespace

struct CudaIpcServer::Client {
  Socket socket;
  std::array<char, kCudaIpcRequestBytes> request{};
  std::size_t received = 0;
};

CudaIpcServer::CudaIpcServer(std::shared_ptr<Reactor> reactor, std::shared_ptr<CudaIpcExports> exports)
    : reactor_(std::move(reactor)), exports_(std::move(exports)), token_(random_bytes(kCudaIpcTokenBytes)) {}

Result<std::shared_ptr<CudaIpcServer>> CudaIpcServer::start(std::shared_ptr<Reactor> reactor,
                                                            std::shared_ptr<CudaIpcExports> exports) {
  std::shared_ptr<CudaIpcServer> server(new CudaIpcServer(std::move(reactor), std::move(exports)));
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::parse("unix:@trireme-cuda-" + random_hex(16)));
  TRIREME_ASSIGN_OR_RETURN(server->listener_, Listener::listen(address));
  TRIREME_ASSIGN_OR_RETURN(server->listening_,
                           server->reactor_->watch(server->listener_.fd(), 0,
                                                   [server](Reactor::Token, std::uint32_t) { server->accept_all(); }));
  server->reactor_->arm(server->listening_, EPOLLIN);
  return server;
}

void CudaIpcServer::accept_all() {
  for (;;) {
    Result<Socket> accepted = listener_.try_accept();
    if (!accepted.is_ok()) {
      // Descriptors have run out, or the like: again a little later, not in a tight loop.
      log_line(LogLevel::warn, "transport",
               accepted.status().with_context("cuda_ipc transport: accepting a peer's question").to_string());
      reactor_->run_at(Deadline::after_ms(kAcceptRetryMs), [weak = weak_from_this()] {
        if (auto self = weak.lock()) self->reactor_->arm(self->listening_, EPOLLIN);
      });
      return;
    }
    if (!accepted->valid()) break;
    auto client = std::make_shared<Client>();
    client->socket = std::move(accepted).value();
    auto watched = reactor_->watch(
        client->socket.fd(), EPOLLIN,
        [self = shared_from_this(), client](Reactor::Token own, std::uint32_t) { self->on_request(own, client); });
    if (!watched.is_ok()) continue;  // The fabric is ending.
    // Who asks nothing is dropped; forgetting twice is harmless.
    reactor_->run_at(Deadline::after_ms(kRequestMs), [weak = std::weak_ptr(reactor_), own = *watched] {
      if (auto reactor = weak.lock()) reactor->forget(own);
    });
  }
  reactor_->arm(listening_, EPOLLIN);
}

void CudaIpcServer::on_request(Reactor::Token own, const std::shared_ptr<Client>& client) {
  const auto keep = std::pair(shared_from_this(), client);  // forget() may drop the handler that holds them.
  Client& asking = *keep.second;
  const Result<std::size_t> got =
      asking.socket.receive_some(asking.request.data() + asking.received, asking.request.size() - asking.received);
  if (got.is_ok()) {
    asking.received += *got;
    if (asking.received < asking.request.size()) return reactor_->arm(own, EPOLLIN);
    answer(asking);
  }
  reactor_->forget(own);
}

void CudaIpcServer::answer(Client& client) {
  const auto request = CudaIpcRequest::decode({client.request.data(), client.request.size()});
  Status status = request.status();
  UniqueFd fd;
  if (status.is_ok() && !equal_secrets(request->token, token_)) status = permission_denied("wrong token");
  if (status.is_ok()) {
    Result<UniqueFd> exported = exports_->descriptor(request->id);
    status = exported.status();
    if (exported.is_ok()) fd = std::move(exported).value();
  }
  // Nobody else is told when the peer has gone.
  const auto deadline = Deadline::after_ms(kAnswerMs);
  if (status.is_ok()) {
    const char yes = 0;
    status = client.socket.send_all(&yes, 1, deadline);
    if (status.is_ok()) status = send_descriptor(client.socket, fd.get(), "", deadline);
    return;
  }
  const std::string reason = status.to_string().substr(0, kMostReasonBytes);
  const std::string no = static_cast<char>(reason.size()) + reason;
  status = client.socket.send_all(no.data(), no.size(), deadline);
}

}  // namespace trireme
