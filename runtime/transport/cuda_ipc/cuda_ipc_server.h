// CudaIpcServer: answers peers that ask for the descriptor of memory which this rank has
// sent in place, on the fabric's service thread. Who asks proves by the token that it is
// a member of the job; anybody else is refused and disturbs nothing.
// Thread safety: all methods.
#pragma once

#include <memory>
#include <string>

#include <trireme/base/status.h>

#include "runtime/platform/api/sockets.h"
#include "runtime/transport/api/reactor.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_exports.h"

namespace trireme {

class CudaIpcServer : public std::enable_shared_from_this<CudaIpcServer> {
 public:
  // Errors: what listening at an abstract Unix socket says.
  static Result<std::shared_ptr<CudaIpcServer>> start(std::shared_ptr<Reactor> reactor,
                                                      std::shared_ptr<CudaIpcExports> exports);
  void stop() { reactor_->forget(listening_); }
  const std::string& address() const { return listener_.address().text; }
  const std::string& token() const { return token_; }

 private:
  CudaIpcServer(std::shared_ptr<Reactor> reactor, std::shared_ptr<CudaIpcExports> exports);
  struct Client;
  void accept_all();
  void on_request(Reactor::Token own, const std::shared_ptr<Client>& client);
  void answer(Client& client);

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<CudaIpcExports> exports_;
  std::string token_;
  Listener listener_;
  Reactor::Token listening_ = 0;
};

}  // namespace trireme
