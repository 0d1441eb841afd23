#include "runtime/transport/verbs/verbs_device.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include <trireme/telemetry/log.h>

namespace trireme {
namespace {

// A cable that is plugged in again, or a switch port that renegotiates, is back by then.
constexpr std::uint64_t kPortGraceMs = 5'000;
constexpr std::size_t kMostGids = 64;

Status set_nonblocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return errno_status(errno, "fcntl of an RDMA device");
  return Status::ok();
}

GidType gid_type(std::uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidType::roce_v2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidType::roce_v1 : GidType::infiniband;
}

}  // namespace

Status registration_error(int error, std::size_t bytes, const std::string& device) {
  if (error != ENOMEM && error != EPERM && error != EAGAIN) {
    return errno_status(error, fmt::format("registering {} KiB with {}", bytes / 1024, device));
  }
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string now =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur / 1024) + " KiB";
  return resource_exhausted(fmt::format(
      "{} cannot lock {} KiB of memory ({}): `ulimit -l` is {}, and RDMA needs {} KiB beside what is registered "
      "already; set `ulimit -l unlimited` (memlock in /etc/security/limits.conf, LimitMEMLOCK= of a service, "
      "--ulimit memlock=-1 of a container)",
      device, bytes / 1024, std::strerror(error), now, bytes / 1024));
}

Result<std::shared_ptr<VerbsDevice>> VerbsDevice::open(const VerbsLibrary& verbs, ibv_device* device,
                                                       std::shared_ptr<Reactor> reactor) {
  std::shared_ptr<VerbsDevice> opened(new VerbsDevice(verbs, std::move(reactor), verbs.get_device_name(device)));
  TRIREME_RETURN_IF_ERROR(opened->start(device));
  return opened;
}

Status VerbsDevice::start(ibv_device* device) {
  context_ = verbs_.open_device(device);
  if (context_ == nullptr) {
    return errno_status(errno,
                        "opening RDMA device " + name_ + " (are /dev/infiniband/uverbs* readable and writable?)");
  }
  domain_ = verbs_.alloc_pd(context_);
  if (domain_ == nullptr) return errno_status(errno, "ibv_alloc_pd on " + name_);
  channel_ = verbs_.create_comp_channel(context_);
  if (channel_ == nullptr) return errno_status(errno, "ibv_create_comp_channel on " + name_);
  TRIREME_RETURN_IF_ERROR(set_nonblocking(channel_->fd));
  TRIREME_RETURN_IF_ERROR(set_nonblocking(context_->async_fd));
  const auto handler = [weak = weak_from_this()](void (VerbsDevice::*method)(Reactor::Token)) {
    return [weak, method](Reactor::Token token, std::uint32_t) {
      if (const auto self = weak.lock()) (*self.*method)(token);
    };
  };
  TRIREME_ASSIGN_OR_RETURN(completions_token_, reactor_->watch(channel_->fd, 0, handler(&VerbsDevice::on_completions)));
  TRIREME_ASSIGN_OR_RETURN(news_token_, reactor_->watch(context_->async_fd, 0, handler(&VerbsDevice::on_news)));
  reactor_->arm(completions_token_, EPOLLIN);
  reactor_->arm(news_token_, EPOLLIN);
  return Status::ok();
}

VerbsDevice::~VerbsDevice() {
  stop();
  if (channel_ != nullptr) verbs_.destroy_comp_channel(channel_);
  if (domain_ != nullptr) verbs_.dealloc_pd(domain_);
  if (context_ != nullptr) verbs_.close_device(context_);
}

void VerbsDevice::stop() {
  if (completions_token_ != 0) reactor_->forget(completions_token_);
  if (news_token_ != 0) reactor_->forget(news_token_);
}

std::optional<VerbsPortInfo> VerbsDevice::describe_port(std::uint8_t port) const {
  ibv_port_attr attributes{};
  if (verbs_.query_port(context_, port, &attributes) != 0 || attributes.state != IBV_PORT_ACTIVE) return std::nullopt;
  VerbsPortInfo info;
  info.device = name_;
  info.port = port;
  info.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  info.lid = attributes.lid;
  info.mtu = static_cast<std::uint8_t>(attributes.active_mtu);
  info.bytes_per_second = rdma_link_bytes_per_second(attributes.active_width, attributes.active_speed);
  std::vector<ibv_gid_entry> entries(kMostGids);
  const ssize_t count = verbs_.query_gid_table(context_, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<std::size_t>(i)];
    if (entry.port_num != port || info.gids.size() == 16) continue;
    RdmaGid gid;
    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), gid.bytes.begin());
    gid.type = gid_type(entry.gid_type);
    gid.index = entry.gid_index;
    if (gid_scope(gid) != GidScope::none) info.gids.push_back(gid);
  }
  return info;
}

Result<ibv_cq*> VerbsDevice::create_queue(int entries, std::weak_ptr<VerbsListener> listener) {
  ibv_cq* queue = verbs_.create_cq(context_, entries, nullptr, channel_, 0);
  if (queue == nullptr) return errno_status(errno, fmt::format("ibv_create_cq of {} entries on {}", entries, name_));
  const std::lock_guard lock(mutex_);
  listeners_[queue] = std::move(listener);
  return queue;
}

void VerbsDevice::destroy_queue(ibv_cq* queue) {
  {
    const std::lock_guard lock(mutex_);
    listeners_.erase(queue);
  }
  verbs_.destroy_cq(queue);  // Waits for events being acknowledged; they are at once.
}

Result<ibv_mr*> VerbsDevice::register_memory(void* memory, std::size_t bytes) {
  ibv_mr* region = verbs_.reg_mr(domain_, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (region == nullptr) return registration_error(errno, bytes, name_);
  return region;
}

void VerbsDevice::on_completions(Reactor::Token token) {
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (verbs_.get_cq_event(channel_, &queue, &unused) == 0) {
    std::shared_ptr<VerbsListener> listener;
    {
      const std::lock_guard lock(mutex_);
      const auto found = listeners_.find(queue);
      if (found != listeners_.end()) listener = found->second.lock();
    }
    // Before the listener is called, which may destroy its queue.
    verbs_.ack_cq_events(queue, 1);
    if (listener) listener->on_completion();
  }
  reactor_->arm(token, EPOLLIN);
}

void VerbsDevice::on_news(Reactor::Token token) {
  ibv_async_event event{};
  while (verbs_.get_async_event(context_, &event) == 0) {
    on_event(event);
    verbs_.ack_async_event(&event);
  }
  reactor_->arm(token, EPOLLIN);
}

void VerbsDevice::on_event(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
      return on_port_down(event.element.port_num);
    case IBV_EVENT_PORT_ACTIVE: {
      log_line(LogLevel::info, "transport", fmt::format("{} port {} is active", name_, event.element.port_num));
      const std::lock_guard lock(mutex_);
      down_since_.erase(event.element.port_num);
      return;
    }
    case IBV_EVENT_DEVICE_FATAL:
      return tell_all(0, unavailable(fmt::format("RDMA device {} has failed ({}); see the kernel's log, and drain "
                                                 "this host",
                                                 name_, verbs_.event_type_str(event.event_type))));
    default:
      // What concerns one queue pair shows in its completions as well.
      log_line(LogLevel::info, "transport",
               fmt::format("RDMA device {} reports: {}", name_, verbs_.event_type_str(event.event_type)));
  }
}

void VerbsDevice::on_port_down(int port) {
  const std::uint64_t heard_ns = system_clock().now_ns();
  {
    const std::lock_guard lock(mutex_);
    down_since_[port] = heard_ns;
  }
  log_line(LogLevel::warn, "transport",
           fmt::format("{} port {} went down; transfers wait {} s for it", name_, port, kPortGraceMs / 1000));
  reactor_->run_at(Deadline::after_ms(kPortGraceMs), [weak = weak_from_this(), port, heard_ns] {
    const auto self = weak.lock();
    if (!self) return;
    {
      const std::lock_guard lock(self->mutex_);
      const auto found = self->down_since_.find(port);
      if (found == self->down_since_.end() || found->second != heard_ns) return;
    }
    self->tell_all(port, unavailable(fmt::format("{} port {} of this host is down for {} s: check its cable, its "
                                                 "network interface and the switch",
                                                 self->name_, port, kPortGraceMs / 1000)));
  });
}

void VerbsDevice::tell_all(int port, const Status& why) {
  log_line(LogLevel::error, "transport", why.to_string());
  std::vector<std::shared_ptr<VerbsListener>> listeners;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [queue, weak] : listeners_) {
      if (auto listener = weak.lock()) listeners.push_back(std::move(listener));
    }
  }
  for (const auto& listener : listeners) listener->on_device_lost(name_, port, why);
}

}  // namespace trireme
