#include "runtime/rendezvous/api/store_server.h"

#include <sys/epoll.h>

#include <cerrno>

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <trireme/base/check.h>

#include "runtime/rendezvous/store_driver.h"

namespace trireme {

struct StoreServer::Impl {
  store::StoreDriver driver;
};

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreServer::~StoreServer() = default;

void StoreServer::prepare() {
  // What the first HMAC would load; asked for nothing, it does nothing.
  TRIREME_CHECK(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr) == 1, "OpenSSL does not start");
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(StoreServerOptions options) {
  if (options.world_size < 0 || options.world_size > store::kMaxWorldSize) {
    return invalid_argument(fmt::format("a store for {} ranks: expected 1 to {}, or 0 to let the first rank say it",
                                        options.world_size, store::kMaxWorldSize));
  }
  if (options.job_id.size() > store::kMaxTextBytes) {
    return invalid_argument(
        fmt::format("a job id of {} characters: expected at most {}", options.job_id.size(), store::kMaxTextBytes));
  }
  TRIREME_ASSIGN_OR_RETURN(const SocketAddress wanted, SocketAddress::parse(options.listen_address));
  TRIREME_ASSIGN_OR_RETURN(Listener listener, Listener::listen(wanted));
  TRIREME_ASSIGN_OR_RETURN(store::EventFd wake, store::EventFd::create());
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return errno_status(errno, "make an epoll descriptor for the store's thread");
  store::StoreConfig config;
  config.job_id = std::move(options.job_id);
  config.secret = std::move(options.secret);
  config.world_size = options.world_size;
  config.epoch = options.epoch;
  config.host_rank = options.host_rank;
  config.death_notice_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(options.death_notice_ms, 0));
  return std::unique_ptr<StoreServer>(new StoreServer(std::unique_ptr<Impl>(new Impl{store::StoreDriver(
      std::move(listener), std::move(wake), std::move(epoll), std::move(config), std::move(options.on_notify))})));
}

const std::string& StoreServer::address() const {
  return impl_->driver.address();
}

void StoreServer::begin_epoch(std::int64_t epoch, int world_size) {
  TRIREME_CHECK(world_size >= 1 && world_size <= store::kMaxWorldSize, "an epoch has at least one rank");
  impl_->driver.apply(
      [&](store::StoreState& state, store::Actions& out) { state.begin_epoch(epoch, world_size, out); });
}

void StoreServer::announce_death(int rank, std::string_view reason) {
  impl_->driver.apply([&](store::StoreState& state, store::Actions& out) { state.announce_death(rank, reason, out); });
}

std::string StoreServer::describe_membership() const {
  return impl_->driver.describe_membership();
}

bool StoreServer::wait_until_empty(Deadline deadline) const {
  return impl_->driver.wait_until_empty(deadline);
}

}  // namespace trireme
