// Two transports below, one for host memory and one with narrow channels for records; a
// GPU; and what is told and proved about it. A rank advertises a page of GPU memory with a
// pattern: who opens a channel to it copies the page first and looks, so that memory is
// named only to peers that have shown that they can read it.
#include "runtime/transport/cuda_ipc/api/cuda_ipc_transport.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/core.h>

#include <trireme/base/hash.h>
#include <trireme/topology/discover.h>

#include "runtime/platform/api/process.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_channel.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_figures.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_server.h"

namespace trireme {
namespace {

constexpr std::size_t kProbeBytes = 4096;
constexpr std::size_t kRecordsRingBytes = 4096;
constexpr std::uint64_t kProbeMs = 5'000;
constexpr std::uint64_t kWatchMs = 200;

std::array<std::uint64_t, kProbeBytes / 8> probe_pattern(std::string_view token) {
  std::array<std::uint64_t, kProbeBytes / 8> words{};
  for (std::uint64_t i = 0; i < words.size(); ++i) words[i] = hash64(token, i);
  return words;
}

std::string namespace_of(const char* name) {
  std::array<char, 128> link{};
  const ssize_t bytes = readlink(fmt::format("/proc/self/ns/{}", name).c_str(), link.data(), link.size());
  return bytes > 0 ? std::string(link.data(), static_cast<std::size_t>(bytes)) : std::string("unknown");
}

// Equal for the ranks of one process, for as long as it lives.
const std::string& this_process() {
  static const std::string name = random_bytes(16);
  return name;
}

// Rings the doorbell now and then while copies are under way: a GPU that has failed calls
// nobody back, and whoever polls finds the error.
class CopyWatch : public std::enable_shared_from_this<CopyWatch> {
 public:
  CopyWatch(std::shared_ptr<Reactor> reactor, std::shared_ptr<CudaIpcDevice> device, std::function<void()> ring)
      : reactor_(std::move(reactor)), device_(std::move(device)), ring_(std::move(ring)) {}
  void start() {
    if (watching_.exchange(true)) return;
    reactor_->run_at(Deadline::after_ms(kWatchMs), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->look();
    });
  }

 private:
  void look() {
    watching_ = false;
    if (device_->copies_open() == 0) return;
    ring_();
    start();
  }

  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<CudaIpcDevice> device_;
  std::function<void()> ring_;
  std::atomic<bool> watching_{false};
};

class CudaIpcTransport final : public Transport {
 public:
  explicit CudaIpcTransport(const TransportEnvironment& environment) : surroundings_(environment) {}
  ~CudaIpcTransport() override;
  Status start(const CudaIpcDriver& driver, const TransportFactory& base);

  std::string_view name() const override { return "cuda_ipc"; }
  TransportCapabilities capabilities() const override {
    TransportCapabilities capabilities = base_->capabilities();
    capabilities.crosses_hosts = false;
    capabilities.device_memory = true;
    return capabilities;
  }
  std::string advertisement() const override { return endpoint_.encode(); }
  Reach reach(const PeerInfo& peer, std::string_view peer_advertisement) const override;
  Result<std::unique_ptr<Channel>> open(const PeerInfo& peer, std::string_view peer_advertisement,
                                        std::uint64_t context) override;
  std::string report(int peer) const override;

 private:
  Status start_below(const TransportFactory& base);
  Status make_probe(const std::string& token);
  void find_paths();
  Status copy_probe(void* to, const void* from) const;
  Status try_reading(const CudaIpcEndpoint& peer) const;
  Status reads(const PeerInfo& peer, const CudaIpcEndpoint& endpoint);

  TransportEnvironment surroundings_;
  std::unique_ptr<Transport> base_;
  std::unique_ptr<Transport> records_;
  std::shared_ptr<CudaIpcDevice> device_;
  CUdeviceptr probe_ = 0;
  std::shared_ptr<CudaIpcExports> exports_;
  std::shared_ptr<CudaIpcImports> imports_;
  std::shared_ptr<CudaIpcServer> server_;
  std::shared_ptr<CopyWatch> watch_;
  CudaIpcEndpoint endpoint_;
  mutable std::mutex mutex_;
  std::map<int, Status> reads_;  // By peer, once tried.
};

Status CudaIpcTransport::start(const CudaIpcDriver& driver, const TransportFactory& base) {
  TRIREME_ASSIGN_OR_RETURN(device_,
                           CudaIpcDevice::open(driver, surroundings_.world->local_rank(), surroundings_.ring_doorbell));
  exports_ = std::make_shared<CudaIpcExports>(device_);
  imports_ = std::make_shared<CudaIpcImports>(device_, surroundings_.reactor, surroundings_.ring_doorbell);
  watch_ = std::make_shared<CopyWatch>(surroundings_.reactor, device_, surroundings_.ring_doorbell);
  TRIREME_ASSIGN_OR_RETURN(server_, CudaIpcServer::start(surroundings_.reactor, exports_));
  if (Status status = make_probe(server_->token()); !status.is_ok()) {
    return unavailable(fmt::format("memory of GPU {} cannot be shared between processes: {}", device_->pci_address(),
                                   status.message()));
  }
  TRIREME_RETURN_IF_ERROR(start_below(base));
  endpoint_.process = this_process();
  endpoint_.scope = namespace_of("ipc") + " " + namespace_of("pid");
  endpoint_.uuid = device_->uuid();
  endpoint_.pci_address = device_->pci_address();
  endpoint_.address = server_->address();
  endpoint_.token = server_->token();
  endpoint_.base = base_->advertisement();
  endpoint_.records = records_->advertisement();
  find_paths();
  return Status::ok();
}

Status CudaIpcTransport::start_below(const TransportFactory& base) {
  TRIREME_ASSIGN_OR_RETURN(base_, base.create(surroundings_));
  TransportEnvironment narrow = surroundings_;
  narrow.channel_bytes = kRecordsRingBytes;
  TRIREME_ASSIGN_OR_RETURN(records_, base.create(narrow));
  return Status::ok();
}

CudaIpcTransport::~CudaIpcTransport() {
  if (server_) server_->stop();
  if (probe_ == 0) return;
  const CudaIpcScope scope(device_->driver(), device_->context());
  device_->driver().mem_free(probe_);
}

// Also proves that the GPU copies and that its memory can be shared, while another
// transport can still be chosen.
Status CudaIpcTransport::make_probe(const std::string& token) {
  const CudaIpcDriver& driver = device_->driver();
  {
    const CudaIpcScope scope(driver, device_->context());
    TRIREME_RETURN_IF_ERROR(driver.check(driver.mem_alloc(&probe_, kProbeBytes), "cuMemAlloc"));
    CUipcMemHandle handle{};
    TRIREME_RETURN_IF_ERROR(driver.check(driver.ipc_get_mem_handle(&handle, probe_), "cuIpcGetMemHandle"));
    endpoint_.probe_handle.assign(handle.reserved, sizeof handle.reserved);
  }
  TRIREME_ASSIGN_OR_RETURN(std::byte* const slot, device_->take_slot());
  const auto pattern = probe_pattern(token);
  std::memcpy(slot, pattern.data(), kProbeBytes);
  const Status copied = copy_probe(reinterpret_cast<void*>(probe_), slot);
  if (copied.is_ok()) device_->give_slot(slot);  // Otherwise the GPU may still use it.
  return copied;
}

Status CudaIpcTransport::copy_probe(void* to, const void* from) const {
  TRIREME_ASSIGN_OR_RETURN(const CUevent event, device_->copy(to, from, kProbeBytes));
  TRIREME_RETURN_IF_ERROR(device_->settle(event, Deadline::after_ms(kProbeMs)));
  device_->release(event);
  return Status::ok();
}

void CudaIpcTransport::find_paths() {
  endpoint_.paths.push_back(path_within_gpu(device_->uuid(), device_->memory_bytes_per_second()));
  const std::vector<CudaIpcDevice::Peer> peers = device_->reachable_peers();
  if (peers.empty()) return;
  const Result<Topology> host = discover_host();
  for (const CudaIpcDevice::Peer& peer : peers) {
    endpoint_.paths.push_back(
        path_between_gpus(peer.uuid, host.is_ok() ? *host : Topology(), device_->pci_address(), peer.pci_address));
  }
}

Status CudaIpcTransport::try_reading(const CudaIpcEndpoint& peer) const {
  if (peer.process == endpoint_.process) return Status::ok();
  CudaIpcRegion region;
  region.bytes = kProbeBytes;
  region.access = CudaIpcAccess::handle;
  region.handle = peer.probe_handle;
  TRIREME_ASSIGN_OR_RETURN(const auto mapping, CudaIpcMapping::open(device_, region));
  TRIREME_ASSIGN_OR_RETURN(std::byte* const slot, device_->take_slot());
  std::memset(slot, 0, kProbeBytes);
  TRIREME_RETURN_IF_ERROR(copy_probe(slot, mapping->at(0)));
  const auto pattern = probe_pattern(peer.token);
  const bool right = std::memcmp(slot, pattern.data(), kProbeBytes) == 0;
  device_->give_slot(slot);
  return right ? Status::ok() : data_loss("a test copy of its GPU memory brought other bytes than it holds");
}

Status CudaIpcTransport::reads(const PeerInfo& peer, const CudaIpcEndpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  const auto known = reads_.find(peer.rank);
  if (known != reads_.end()) return known->second;
  return reads_[peer.rank] = try_reading(endpoint);
}

std::string CudaIpcTransport::report(int peer) const {
  const std::lock_guard lock(mutex_);
  const auto known = reads_.find(peer);
  if (known == reads_.end()) return "";
  if (known->second.is_ok()) return "a test copy of its GPU memory was right";
  return "GPU memory goes through the host: " + known->second.message();
}

// A function of the two advertisements, so that both ends say the same.
Reach CudaIpcTransport::reach(const PeerInfo& peer, std::string_view peer_advertisement) const {
  Reach reach;
  const auto theirs = CudaIpcEndpoint::decode(peer_advertisement);
  if (!theirs.is_ok()) {
    reach.reason = theirs.status().message();
    return reach;
  }
  const World& world = *surroundings_.world;
  const bool one_host = peer.host_identity == world.peer(world.rank()).host_identity;
  const Reach below = base_->reach(peer, theirs->base);
  const CudaIpcPath* out = endpoint_.path_to(theirs->uuid);
  const CudaIpcPath* back = theirs->path_to(endpoint_.uuid);
  const std::string pair = fmt::format("GPU {} of rank {} and GPU {} of rank {}", endpoint_.pci_address, world.rank(),
                                       theirs->pci_address, peer.rank);
  if (!one_host) {
    reach.reason = "hosts differ: no peer memory";
  } else if (!below.possible) {
    reach.reason = below.reason;
  } else if (theirs->scope != endpoint_.scope) {
    reach.reason =
        "IPC or PID namespaces differ: GPU memory cannot be shared; start both containers with --ipc=host --pid=host";
  } else if (out == nullptr || back == nullptr) {
    reach.reason = pair +
                   ": no peer access; no NVLink and no PCIe path that allows it joins them, or CUDA_VISIBLE_DEVICES "
                   "hides one from the other's rank";
  } else {
    reach.possible = true;
    reach.bytes_per_second = std::min(out->bytes_per_second, back->bytes_per_second);
    reach.latency_us = std::max(out->latency_us, back->latency_us);
    reach.reason = pair + ": " + (world.rank() < peer.rank ? out : back)->way;
  }
  return reach;
}

Result<std::unique_ptr<Channel>> CudaIpcTransport::open(const PeerInfo& peer, std::string_view peer_advertisement,
                                                        std::uint64_t context) {
  CudaIpcChannelOptions options;
  TRIREME_ASSIGN_OR_RETURN(options.endpoint, CudaIpcEndpoint::decode(peer_advertisement));
  TRIREME_ASSIGN_OR_RETURN(options.base, base_->open(peer, options.endpoint.base, context));
  TRIREME_ASSIGN_OR_RETURN(options.records, records_->open(peer, options.endpoint.records, context));
  options.device = device_;
  options.exports = exports_;
  options.imports = imports_;
  options.peers = surroundings_.peers;
  options.peer = peer;
  options.context = context;
  options.same_process = options.endpoint.process == endpoint_.process;
  options.reads = reads(peer, options.endpoint);
  options.watch_copies = [watch = watch_] { watch->start(); };
  return std::unique_ptr<Channel>(std::make_unique<CudaIpcChannel>(std::move(options)));
}

}  // namespace

Result<std::unique_ptr<Transport>> create_cuda_ipc_transport(const TransportEnvironment& environment,
                                                             const TransportFactory& base) {
  // A context takes a third of a second and half a gigabyte of every GPU: not for ranks that compute on the host.
  const Status unused = unavailable(
      "this process uses no GPU: make a CUDA context before it joins, or force the transport (TRIREME_TRANSPORT)");
  if (!environment.forced && !CudaIpcDriver::is_loaded()) return unused;
  TRIREME_ASSIGN_OR_RETURN(const CudaIpcDriver* driver, CudaIpcDriver::system());
  if (!environment.forced && !process_uses_cuda(*driver)) return unused;
  auto transport = std::make_unique<CudaIpcTransport>(environment);
  TRIREME_RETURN_IF_ERROR(transport->start(*driver, base));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace trireme
