#include "runtime/transport/verbs/verbs_transport.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <set>

#include <fmt/core.h>

#include <trireme/platform/environment.h>
#include <trireme/telemetry/log.h>
#include <trireme/topology/roce_gid.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/api/system.h"
#include "runtime/transport/verbs/api/verbs_transport.h"
#include "runtime/transport/verbs/verbs_channel.h"
#include "runtime/transport/verbs/verbs_meeting.h"
#include "runtime/transport/verbs/verbs_ports.h"

namespace trireme {
namespace {

constexpr std::uint64_t kLingerMs = 3'000;
constexpr std::uint64_t kWatchMs = 250;
constexpr std::size_t kRegisteredBytes = std::size_t{16} << 30;  // Of others' memory, kept at most.
// Looking at a queue takes a fraction of a microsecond, being woken about ten.
constexpr int kPollsWithCoresToSpare = 200;
constexpr int kPollsWithout = 10;

// Channels that are closed but not done. Thread safety: all methods.
class VerbsLingering : public std::enable_shared_from_this<VerbsLingering> {
 public:
  VerbsLingering(std::shared_ptr<Reactor> reactor, std::shared_ptr<PeerWatch> peers)
      : reactor_(std::move(reactor)), peers_(std::move(peers)) {}

  void close(std::shared_ptr<VerbsLink> link, int peer) {
    {
      const std::lock_guard lock(mutex_);
      links_.emplace(link, peer);
    }
    link->close([weak = weak_from_this(), raw = link.get()] {
      if (const auto self = weak.lock()) self->remove(raw);
    });
    const std::lock_guard lock(mutex_);
    if (links_.empty() || watching_) return;
    watching_ = true;
    watch_later();
  }

  // Waits until nothing is left that could still arrive.
  void wait(Deadline deadline) {
    for (;;) {
      std::vector<std::shared_ptr<VerbsLink>> links;
      {
        std::unique_lock lock(mutex_);
        for (const auto& [link, peer] : links_) links.push_back(link);
      }
      const bool busy = std::any_of(links.begin(), links.end(), [](const auto& link) { return link->lingers(); });
      if (!busy || deadline.expired()) break;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    const std::lock_guard lock(mutex_);
    links_.clear();
  }

 private:
  void remove(const VerbsLink* raw) {
    std::shared_ptr<VerbsLink> link;  // Destroyed after the lock is released.
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& e) { return e.first.get() == raw; });
    if (found == links_.end()) return;
    link = found->first;
    links_.erase(found);
    changed_.notify_all();
  }

  void watch_later() {
    reactor_->run_at(Deadline::after_ms(kWatchMs), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->watch();
    });
  }

  // A peer that died takes nothing any more.
  void watch() {
    std::vector<std::shared_ptr<VerbsLink>> orphans;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [link, peer] : links_) {
        if (!peers_->status(peer).is_ok()) orphans.push_back(link);
      }
    }
    for (const auto& link : orphans) link->give_up();
    const std::lock_guard lock(mutex_);
    watching_ = !links_.empty();
    if (watching_) watch_later();
  }

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<PeerWatch> peers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<std::shared_ptr<VerbsLink>, int>> links_;
  bool watching_ = false;
};

class VerbsTransport final : public Transport {
 public:
  explicit VerbsTransport(const TransportEnvironment& surroundings) : surroundings_(surroundings) {}
  ~VerbsTransport() override;
  Status start(const VerbsLibrary& verbs);

  std::string_view name() const override { return "verbs"; }
  TransportCapabilities capabilities() const override {
    return {.crosses_hosts = true, .in_place = true, .notices_peer_death = true};
  }
  std::string advertisement() const override { return endpoint_.encode(); }
  Reach reach(const PeerInfo& peer, std::string_view peer_advertisement) const override;
  Result<std::unique_ptr<Channel>> open(const PeerInfo& peer, std::string_view peer_advertisement,
                                        std::uint64_t context) override;

 private:
  Status open_devices(const VerbsLibrary& verbs);
  Status open_mailboxes();
  std::vector<VerbsRailChoice> rails_to(const VerbsEndpoint& peer, std::string* why) const;
  void introduce(const PeerInfo& peer, const VerbsEndpoint& endpoint, const std::vector<VerbsRailChoice>& rails) const;
  const std::shared_ptr<VerbsDevice>& device_of(const VerbsPortInfo& port) const;
  int polls_before_sleep() const;

  TransportEnvironment surroundings_;
  VerbsEndpoint endpoint_;
  std::vector<std::shared_ptr<VerbsDevice>> devices_;
  std::vector<std::shared_ptr<VerbsMailbox>> mailboxes_;  // As endpoint_.ports.
  std::shared_ptr<VerbsBlocks> blocks_;
  std::shared_ptr<VerbsRegistrations> registrations_;
  std::shared_ptr<VerbsMeeting> meeting_;
  std::shared_ptr<VerbsLingering> lingering_;
};

std::uint32_t random_key() {
  std::uint32_t key = 0;
  const std::string bytes = random_bytes(sizeof key);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(&key));
  return key & 0x7fffffff;  // The highest bit means a privileged key.
}

Status VerbsTransport::open_devices(const VerbsLibrary& verbs) {
  const std::string filter = environment("TRIREME_VERBS_DEVICES").value_or("");
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  std::string found;
  std::vector<VerbsCandidate> candidates;
  Status problem;
  for (int i = 0; list != nullptr && i < count; ++i) {
    found += (found.empty() ? "" : ", ") + std::string(verbs.get_device_name(list[i]));
    auto device = VerbsDevice::open(verbs, list[i], surroundings_.reactor);
    if (!device.is_ok()) {
      problem = device.status();
      continue;
    }
    const VerbsPlace place = find_verbs_place((*device)->name());
    bool used = false;
    for (int port = 1; port <= (*device)->port_count(); ++port) {
      const Result<bool> admitted = verbs_filter_admits(filter, (*device)->name(), port);
      if (!admitted.is_ok()) problem = admitted.status();
      auto info = (*device)->describe_port(static_cast<std::uint8_t>(port));
      if (!admitted.is_ok() || !*admitted || !info || info->gids.empty()) continue;
      info->software = place.pci_path.empty();
      candidates.push_back({*info, place});
      used = true;
    }
    if (used) devices_.push_back(*device);
  }
  if (list != nullptr) verbs.free_device_list(list);
  if (count == 0) return unavailable("no RDMA device (see `rdma link`, `ibv_devices`)");
  endpoint_.ports = order_verbs_ports(std::move(candidates), find_rank_place(surroundings_.world->local_rank()));
  if (!endpoint_.ports.empty()) return Status::ok();
  if (!problem.is_ok()) return unavailable(problem.to_string());
  return unavailable(
      fmt::format("no usable port among the RDMA devices {} (see `rdma link`: a port must be active and "
                  "have an address{})",
                  found, filter.empty() ? "" : "; TRIREME_VERBS_DEVICES=" + filter));
}

Status VerbsTransport::open_mailboxes() {
  for (VerbsPortInfo& port : endpoint_.ports) {
    auto deliver = [weak = std::weak_ptr(meeting_)](std::string_view datagram) {
      if (const auto meeting = weak.lock()) meeting->deliver(datagram);
    };
    TRIREME_ASSIGN_OR_RETURN(auto mailbox, VerbsMailbox::create(device_of(port), port, endpoint_.mailbox_key, deliver));
    port.mailbox_qp = mailbox->address();
    mailboxes_.push_back(std::move(mailbox));
  }
  for (const auto& mailbox : mailboxes_) {
    surroundings_.reactor->run_soon([mailbox] { mailbox->start(); });
  }
  return Status::ok();
}

Status VerbsTransport::start(const VerbsLibrary& verbs) {
  if (surroundings_.channel_bytes > kVerbsLargestRing) {
    return unavailable(
        fmt::format("channels of {} bytes are larger than RDMA channels can be", surroundings_.channel_bytes));
  }
  TRIREME_RETURN_IF_ERROR(open_devices(verbs));
  // Devices that give no port need not stay open, nor have memory registered with them.
  std::erase_if(devices_, [&](const auto& device) {
    return std::none_of(endpoint_.ports.begin(), endpoint_.ports.end(),
                        [&](const VerbsPortInfo& port) { return port.device == device->name(); });
  });
  endpoint_.token = random_bytes(kVerbsTokenBytes);
  endpoint_.mailbox_key = random_key();
  const std::string rails = environment("TRIREME_VERBS_RAILS").value_or("");
  int most = static_cast<int>(kVerbsMostRails);
  std::from_chars(rails.data(), rails.data() + rails.size(), most);
  endpoint_.most_rails = static_cast<std::uint8_t>(std::clamp(most, 1, static_cast<int>(kVerbsMostRails)));
  meeting_ =
      std::make_shared<VerbsMeeting>(surroundings_.world, surroundings_.reactor, surroundings_.peers, endpoint_.token);
  lingering_ = std::make_shared<VerbsLingering>(surroundings_.reactor, surroundings_.peers);
  blocks_ = std::make_shared<VerbsBlocks>(devices_);
  // Proves now that a channel's memory can be registered, while another transport can still be chosen.
  TRIREME_RETURN_IF_ERROR(blocks_->acquire(2 * surroundings_.channel_bytes).status());
  registrations_ = std::make_shared<VerbsRegistrations>(devices_, CudaDriver::system(), kRegisteredBytes);
  return open_mailboxes();
}

VerbsTransport::~VerbsTransport() {
  if (lingering_) lingering_->wait(Deadline::after_ms(kLingerMs));
  for (const auto& device : devices_) device->stop();
}

const std::shared_ptr<VerbsDevice>& VerbsTransport::device_of(const VerbsPortInfo& port) const {
  const auto found =
      std::find_if(devices_.begin(), devices_.end(), [&](const auto& device) { return device->name() == port.device; });
  TRIREME_CHECK(found != devices_.end(), "a port without its device");
  return *found;
}

std::vector<VerbsRailChoice> VerbsTransport::rails_to(const VerbsEndpoint& peer, std::string* why) const {
  return choose_verbs_rails(endpoint_.ports, peer.ports, std::min(endpoint_.most_rails, peer.most_rails), why);
}

int VerbsTransport::polls_before_sleep() const {
  return surroundings_.world->local_size() <= usable_cpu_count() ? kPollsWithCoresToSpare : kPollsWithout;
}

void VerbsTransport::introduce(const PeerInfo& peer, const VerbsEndpoint& endpoint,
                               const std::vector<VerbsRailChoice>& rails) const {
  VerbsContact contact;
  contact.mailbox_key = endpoint.mailbox_key;
  contact.token = endpoint.token;
  contact.peer = peer.to_string();
  for (const VerbsRailChoice& rail : rails) {
    const VerbsPortInfo& theirs = endpoint.ports[rail.port_b];
    contact.routes.push_back(
        {mailboxes_[rail.port_a], endpoint_.ports[rail.port_a].gids[rail.gids.a], theirs, theirs.gids[rail.gids.b]});
  }
  meeting_->introduce(peer.rank, std::move(contact));
}

Reach VerbsTransport::reach(const PeerInfo& peer, std::string_view peer_advertisement) const {
  Reach reach;
  const auto endpoint = VerbsEndpoint::decode(peer_advertisement);
  if (!endpoint.is_ok()) {
    reach.reason = endpoint.status().message();
    return reach;
  }
  const std::vector<VerbsRailChoice> rails = rails_to(*endpoint, &reach.reason);
  if (rails.empty()) return reach;
  introduce(peer, *endpoint, rails);
  const World& world = *surroundings_.world;
  const VerbsPortInfo& own = endpoint_.ports[rails.front().port_a];
  const VerbsPortInfo& theirs = endpoint->ports[rails.front().port_b];
  const bool software = own.software || theirs.software;
  reach.possible = true;
  for (const VerbsRailChoice& rail : rails) reach.bytes_per_second += rail.bytes_per_second;
  reach.latency_us = software ? 60 : 3;
  if (software) {
    reach.bytes_per_second = 0.3e9;  // The kernel's processors do what a device would.
  } else if (peer.host_identity == world.peer(world.rank()).host_identity) {
    reach.bytes_per_second = std::min(reach.bytes_per_second, 6e9);  // Twice over PCIe: memory is nearer.
  }
  reach.reason = fmt::format("{}{} to {}, {} to {}{}", software ? "software RDMA, " : "", own.name(), theirs.name(),
                             gid_to_string(own.gids[rails.front().gids.a].bytes),
                             gid_to_string(theirs.gids[rails.front().gids.b].bytes),
                             rails.size() > 1 ? fmt::format(", {} rails", rails.size()) : "");
  return reach;
}

Result<std::unique_ptr<Channel>> VerbsTransport::open(const PeerInfo& peer, std::string_view peer_advertisement,
                                                      std::uint64_t context) {
  TRIREME_ASSIGN_OR_RETURN(const VerbsEndpoint endpoint, VerbsEndpoint::decode(peer_advertisement));
  const std::vector<VerbsRailChoice> rails = rails_to(endpoint, nullptr);
  introduce(peer, endpoint, rails);
  VerbsLinkOptions options;
  for (const VerbsRailChoice& rail : rails) {
    const VerbsPortInfo& own = endpoint_.ports[rail.port_a];
    const VerbsPortInfo& theirs = endpoint.ports[rail.port_b];
    options.rails.push_back({device_of(own), own, theirs, own.gids[rail.gids.a], theirs.gids[rail.gids.b], rail.mtu});
  }
  TRIREME_ASSIGN_OR_RETURN(options.block, blocks_->acquire(2 * surroundings_.channel_bytes));
  options.ring_bytes = surroundings_.channel_bytes;
  options.registrations = registrations_;
  options.peer = peer.to_string();
  options.first_to_speak = surroundings_.world->rank() < peer.rank;
  options.polls_before_sleep = polls_before_sleep();
  options.ring_doorbell = surroundings_.ring_doorbell;
  auto link = std::make_shared<VerbsLink>(std::move(options));
  if (Status status = link->set_up(); !status.is_ok()) {
    return status.with_context(fmt::format("opening context {} to {}", context, peer.to_string()));
  }
  meeting_->add(meeting_->next_key(peer.rank, context), link);
  return std::unique_ptr<Channel>(
      std::make_unique<VerbsChannel>(std::move(link), surroundings_.peers, peer.rank, context,
                                     [lingering = lingering_, rank = peer.rank](std::shared_ptr<VerbsLink> closed) {
                                       lingering->close(std::move(closed), rank);
                                     }));
}

}  // namespace

Result<std::unique_ptr<Transport>> create_verbs_transport_on(const VerbsLibrary& verbs,
                                                             const TransportEnvironment& environment) {
  auto transport = std::make_unique<VerbsTransport>(environment);
  TRIREME_RETURN_IF_ERROR(transport->start(verbs));
  return std::unique_ptr<Transport>(std::move(transport));
}

Result<std::unique_ptr<Transport>> create_verbs_transport(const TransportEnvironment& environment) {
  TRIREME_ASSIGN_OR_RETURN(const VerbsLibrary* verbs, VerbsLibrary::system());
  return create_verbs_transport_on(*verbs, environment);
}

}  // namespace trireme
