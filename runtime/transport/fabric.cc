#include "runtime/transport/api/fabric.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/core.h>

#include <trireme/base/wire.h>
#include <trireme/platform/environment.h>
#include <trireme/telemetry/log.h>

#include "runtime/platform/api/system.h"
#include "runtime/transport/selector.h"

namespace trireme {
namespace {

// One rank's row of the start-up exchange: what it forces, where it may run, and per
// transport of its table either how to reach it or why it could not be created.
struct Advert {
  struct Entry {
    std::string name;
    bool available = false;
    std::string text;
  };
  std::string forced;
  std::vector<int> cpus;
  std::vector<Entry> entries;

  std::string encode() const {
    WireWriter writer;
    writer.bytes(forced);
    writer.u32(static_cast<std::uint32_t>(cpus.size()));
    for (const int cpu : cpus) writer.u32(static_cast<std::uint32_t>(cpu));
    writer.u32(static_cast<std::uint32_t>(entries.size()));
    for (const Entry& entry : entries) {
      writer.bytes(entry.name);
      writer.u8(entry.available ? 1 : 0);
      writer.bytes(entry.text);
    }
    return writer.take();
  }

  static Result<Advert> decode(std::string_view text, const PeerInfo& peer) {
    WireReader reader(text);
    Advert advert;
    advert.forced = reader.string();
    const std::uint32_t cpus = reader.u32();
    for (std::uint32_t i = 0; i < cpus && !reader.failed(); ++i) advert.cpus.push_back(static_cast<int>(reader.u32()));
    const std::uint32_t count = reader.u32();
    for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) {
      Entry entry;
      entry.name = reader.string();
      entry.available = reader.u8() != 0;
      entry.text = reader.string();
      advert.entries.push_back(std::move(entry));
    }
    if (!reader.finished()) {
      return data_loss("transport advertisement of " + peer.to_string() + ": not in the format of this build; run " +
                       "the same Trireme version on all ranks");
    }
    return advert;
  }

  const Entry* find(std::string_view name) const {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
    return found == entries.end() ? nullptr : &*found;
  }
};

constexpr std::size_t kDoorbellHeapBytes = 4096;
constexpr std::size_t kLeastChannelBytes = 64;

}  // namespace

struct Fabric::Impl {
  std::shared_ptr<World> world;
  std::shared_ptr<SharedHeap> doorbell_heap;
  DoorbellWord* word = nullptr;
  std::unique_ptr<Doorbell> doorbell;
  std::shared_ptr<Reactor> reactor;
  std::shared_ptr<PeerWatch> peers;
  std::vector<std::unique_ptr<Transport>> transports;  // In the table's order; null when not to be had.
  Advert own;
  std::vector<Advert> adverts;      // By rank.
  std::vector<PathChoice> choices;  // By rank; this rank's own is empty.
  HostLoad host;

  ~Impl() {
    transports.clear();
    if (reactor) reactor->stop();
  }

  Status start(const FabricOptions& options);
  Status make_doorbell();
  void count_host();
  void make_transports(const FabricOptions& options);
  Status exchange(const FabricOptions& options);
  Status check_forced() const;
  Status choose(int peer);
  Reach reach(std::size_t index, int peer) const;
  Transport* find_transport(std::string_view name) const;
};

Status Fabric::Impl::make_doorbell() {
  TRIREME_ASSIGN_OR_RETURN(doorbell_heap, SharedHeap::create("trireme-doorbell", kDoorbellHeapBytes));
  TRIREME_ASSIGN_OR_RETURN(void* memory, doorbell_heap->allocate(sizeof(DoorbellWord)));
  word = new (memory) DoorbellWord;
  return Status::ok();
}

// The ranks of this host share the processors that any of them may run on: bound to one
// each, they have as many as they are.
void Fabric::Impl::count_host() {
  std::set<int> cpus;
  for (int rank = 0; rank < world->size(); ++rank) {
    if (world->peer(rank).host_identity != world->peer(world->rank()).host_identity) continue;
    ++host.ranks;
    const std::vector<int>& theirs = adverts[static_cast<std::size_t>(rank)].cpus;
    cpus.insert(theirs.begin(), theirs.end());
  }
  host.cpus = std::max(1, static_cast<int>(cpus.size()));
}

void Fabric::Impl::make_transports(const FabricOptions& options) {
  TransportEnvironment surroundings;
  surroundings.world = world;
  surroundings.ring_doorbell = [heap = doorbell_heap, bell = word] { Doorbell::ring(*bell); };
  surroundings.doorbell_word = word;
  surroundings.doorbell_heap_fd = doorbell_heap->fd();
  surroundings.doorbell_heap_bytes = doorbell_heap->bytes();
  surroundings.doorbell_offset = doorbell_heap->offset_of(word, sizeof(DoorbellWord)).value();
  surroundings.channel_bytes = std::bit_ceil(std::max(options.channel_bytes, kLeastChannelBytes));
  surroundings.reactor = reactor;
  surroundings.peers = peers;
  for (const TransportFactory& factory : options.transports) {
    surroundings.forced = factory.name == own.forced;
    auto transport = factory.create(surroundings);
    own.entries.push_back({std::string(factory.name), transport.is_ok(),
                           transport.is_ok() ? transport.value()->advertisement() : transport.status().to_string()});
    transports.push_back(transport.is_ok() ? std::move(transport).value() : nullptr);
  }
}

Status Fabric::Impl::exchange(const FabricOptions& options) {
  // Fabrics are created in the same order by all ranks: the count names the exchange.
  TRIREME_ASSIGN_OR_RETURN(const std::int64_t ordinal,
                           world->add(fmt::format("transport/fabrics/{}", world->rank()), 1));
  std::vector<int> members(static_cast<std::size_t>(world->size()));
  std::iota(members.begin(), members.end(), 0);
  TRIREME_ASSIGN_OR_RETURN(
      const std::vector<std::string> rows,
      world->exchange(fmt::format("transport/adverts/{}", ordinal), members, own.encode(),
                      Deadline::after_ms(static_cast<std::uint64_t>(options.exchange_timeout_ms))));
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    TRIREME_ASSIGN_OR_RETURN(Advert advert, Advert::decode(rows[rank], world->peer(static_cast<int>(rank))));
    adverts.push_back(std::move(advert));
  }
  return Status::ok();
}

Status Fabric::Impl::check_forced() const {
  const auto shown = [](const std::string& name) { return name.empty() ? std::string("none") : name; };
  for (std::size_t rank = 1; rank < adverts.size(); ++rank) {
    if (adverts[rank].forced == adverts[0].forced) continue;
    return mismatch(fmt::format("{} forces transport {} but {} forces {}: set TRIREME_TRANSPORT alike on all ranks",
                                world->peer(0).to_string(), shown(adverts[0].forced),
                                world->peer(static_cast<int>(rank)).to_string(), shown(adverts[rank].forced)));
  }
  if (own.forced.empty() || own.find(own.forced) != nullptr) return Status::ok();
  std::string known;
  for (const Advert::Entry& entry : own.entries) known += (known.empty() ? "" : ", ") + entry.name;
  return invalid_argument(
      fmt::format("TRIREME_TRANSPORT={}: no such transport; expected one of: {}", own.forced, known));
}

Reach Fabric::Impl::reach(std::size_t index, int peer) const {
  Reach none;
  const Advert::Entry& mine = own.entries[index];
  const Advert::Entry* theirs = adverts[static_cast<std::size_t>(peer)].find(mine.name);
  if (!mine.available) {
    none.reason = "not available on " + world->peer(world->rank()).to_string() + ": " + mine.text;
  } else if (theirs == nullptr) {
    none.reason = "the build of " + world->peer(peer).to_string() + " does not have it";
  } else if (!theirs->available) {
    none.reason = "not available on " + world->peer(peer).to_string() + ": " + theirs->text;
  } else {
    return transports[index]->reach(world->peer(peer), theirs->text);
  }
  return none;
}

Status Fabric::Impl::choose(int peer) {
  std::vector<PathChoice::Candidate> candidates;
  for (std::size_t i = 0; i < transports.size(); ++i) candidates.push_back({own.entries[i].name, reach(i, peer)});
  PathChoice& choice = choices[static_cast<std::size_t>(peer)];
  choice = choose_path(std::move(candidates), own.forced);
  if (choice.transport.empty()) {
    return unavailable(fmt::format("between {} and {}: {}", world->peer(world->rank()).to_string(),
                                   world->peer(peer).to_string(), choice.reason));
  }
  return Status::ok();
}

Status Fabric::Impl::start(const FabricOptions& options) {
  choices.resize(static_cast<std::size_t>(world->size()));
  TRIREME_RETURN_IF_ERROR(make_doorbell());
  peers = PeerWatch::create(world, [heap = doorbell_heap, bell = word] { Doorbell::ring(*bell); });
  own.cpus = usable_cpus();
  if (world->size() == 1) {
    adverts.push_back(own);
    count_host();
    doorbell = std::make_unique<Doorbell>(word, WaitPolicy::for_host(host.ranks, host.cpus));
    return Status::ok();
  }
  own.forced =
      options.forced_transport.empty() ? environment("TRIREME_TRANSPORT").value_or("") : options.forced_transport;
  TRIREME_ASSIGN_OR_RETURN(reactor, Reactor::start());
  make_transports(options);
  TRIREME_RETURN_IF_ERROR(exchange(options));
  count_host();
  doorbell = std::make_unique<Doorbell>(word, WaitPolicy::for_host(host.ranks, host.cpus));
  TRIREME_RETURN_IF_ERROR(check_forced());
  for (int peer = 0; peer < world->size(); ++peer) {
    if (peer != world->rank()) TRIREME_RETURN_IF_ERROR(choose(peer));
  }
  return Status::ok();
}

Transport* Fabric::Impl::find_transport(std::string_view name) const {
  for (std::size_t i = 0; i < transports.size(); ++i) {
    if (own.entries[i].name == name) return transports[i].get();
  }
  return nullptr;
}

Fabric::Fabric(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Fabric::~Fabric() = default;

Result<std::unique_ptr<Fabric>> Fabric::create(std::shared_ptr<World> world, const FabricOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->world = std::move(world);
  if (Status status = impl->start(options); !status.is_ok()) {
    log_line(LogLevel::error, "transport", status.to_string());
    return status.with_context("creating the fabric");
  }
  std::unique_ptr<Fabric> fabric(new Fabric(std::move(impl)));
  if (log_enabled(LogLevel::info, "transport")) {
    for (int peer = 0; peer < fabric->world().size(); ++peer) {
      if (peer != fabric->world().rank()) log_line(LogLevel::info, "transport", fabric->explain(peer));
    }
  }
  return fabric;
}

Result<std::unique_ptr<Channel>> Fabric::open_channel(int peer, std::uint64_t context) {
  if (peer < 0 || peer >= world().size() || peer == world().rank()) {
    return invalid_argument(
        fmt::format("open_channel({}): expected another rank of this world of {}", peer, world().size()));
  }
  const std::string& name = choice(peer).transport;
  const Advert::Entry* entry = impl_->adverts[static_cast<std::size_t>(peer)].find(name);
  return impl_->find_transport(name)->open(world().peer(peer), entry->text, context);
}

bool Fabric::shares_memory(int peer) const {
  return impl_->find_transport(choice(peer).transport)->memory_exchange() != nullptr;
}

Result<std::shared_ptr<PeerMemory>> Fabric::exchange_memory(int peer, std::uint64_t context, const SharedHeap& own,
                                                            std::size_t offset) {
  const std::string& name = choice(peer).transport;
  MemoryExchange* exchange = impl_->find_transport(name)->memory_exchange();
  TRIREME_CHECK(exchange != nullptr, "exchange_memory() with a rank whose memory cannot be mapped");
  const Advert::Entry* entry = impl_->adverts[static_cast<std::size_t>(peer)].find(name);
  return exchange->exchange(world().peer(peer), entry->text, context, own, offset);
}

const PathChoice& Fabric::choice(int peer) const {
  TRIREME_CHECK(peer >= 0 && peer < static_cast<int>(impl_->choices.size()), "choice() of a rank outside the world");
  return impl_->choices[static_cast<std::size_t>(peer)];
}

std::string Fabric::explain(int peer) const {
  if (peer == impl_->world->rank()) return impl_->world->peer(peer).to_string() + ": this rank, no path needed";
  const PathChoice& path = choice(peer);
  std::string text = fmt::format("to {}: {}", impl_->world->peer(peer).to_string(), path.reason);
  for (const PathChoice::Candidate& candidate : path.candidates) {
    const Reach& reach = candidate.reach;
    text += reach.possible ? fmt::format("\n  {}: {:.1f} GB/s, {:.1f} us expected; {}", candidate.transport,
                                         reach.bytes_per_second / 1e9, reach.latency_us, reach.reason)
                           : fmt::format("\n  {}: not possible; {}", candidate.transport, reach.reason);
    const Transport* transport = impl_->find_transport(candidate.transport);
    const std::string report = transport != nullptr ? transport->report(peer) : "";
    if (!report.empty()) text += "\n    measured: " + report;
  }
  return text;
}

Doorbell& Fabric::doorbell() {
  return *impl_->doorbell;
}
HostLoad Fabric::host() const {
  return impl_->host;
}
World& Fabric::world() {
  return *impl_->world;
}

}  // namespace trireme
