#include "collectives/nccl_interface/unique_id.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/core.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/address_choice.h"
#include "runtime/platform/api/process.h"
#include "runtime/platform/api/sockets.h"
#include "runtime/rendezvous/api/store_server.h"

namespace trireme::nccl {
namespace {

// The bytes of an id: magic, 16 random bytes of secret, 4 of job id, then the addresses
// as text that ends in a zero byte.
constexpr char kMagic[8] = {'T', 'r', 'i', 'r', 'e', 'm', 'e', '1'};
constexpr std::size_t kSecretBytes = 16;
constexpr std::size_t kJobBytes = 4;
constexpr std::size_t kTextAt = sizeof kMagic + kSecretBytes + kJobBytes;
constexpr std::size_t kTextBytes = kUniqueIdBytes - kTextAt;
constexpr std::int64_t kJoinTimeoutMs = 600'000;  // Programs load for minutes before they meet.
constexpr std::uint64_t kLingerMs = 10'000;

struct Store {
  std::int64_t pid = 0;
  bool joined = false;  // A rank of this process has met the others there.
  std::unique_ptr<StoreServer> server;
};

// The stores of this process, by job id. Never destroyed: a forked child has the entries,
// but not their threads.
struct Stores {
  std::mutex mutex;
  std::map<std::string, Store> by_job;
};

Stores& stores() {
  static Stores& all = []() -> Stores& {
    StoreServer::prepare();
    (void)std::atexit(close_stores);
    return *new Stores;
  }();
  return all;
}

Result<std::unique_ptr<StoreServer>> start_store(const Meeting& meeting) {
  StoreServerOptions options;
  options.job_id = meeting.job_id;
  options.secret = meeting.secret;
  options.world_size = 0;
  options.listen_address = "[::]:0";  // Serves IPv4 too.
  auto server = StoreServer::start(options);
  if (server.is_ok()) return server;
  options.listen_address = "0.0.0.0:0";
  return StoreServer::start(options);
}

// As many of this host's addresses as an id can hold, likely ones first, then loopback.
Result<std::string> reachable_addresses(int port) {
  TRIREME_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> interfaces, interface_addresses());
  TRIREME_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> chosen,
                           select_addresses(interfaces, environment("TRIREME_INTERFACE").value_or(""), false));
  const std::string loopback = with_port("127.0.0.1", port);
  std::string text;
  for (const InterfaceAddress& interface : chosen) {
    // The scope of a link-local address means nothing on another host.
    if (interface.loopback || is_link_local(interface.address)) continue;
    const std::string address = with_port(interface.address, port);
    if (text.size() + address.size() + 1 + loopback.size() < kTextBytes) text += address + ",";
  }
  return text + loopback;
}

std::string to_hex(const char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  return text;
}

void from_hex(const std::string& text, char* bytes) {
  for (std::size_t i = 0; i < text.size() / 2; ++i) {
    bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
}

std::string job_id_of(const std::string& hex) {
  return "nccl-" + hex;
}

// Takes the stores that `ended` picks out of the table, so that they end without its lock.
template <typename Predicate>
std::vector<std::unique_ptr<StoreServer>> take_stores(const Predicate& ended) {
  std::vector<std::unique_ptr<StoreServer>> taken;
  Stores& all = stores();
  const std::lock_guard lock(all.mutex);
  for (auto entry = all.by_job.begin(); entry != all.by_job.end();) {
    if (entry->second.pid != current_pid() || !ended(entry->second)) {
      ++entry;
      continue;
    }
    taken.push_back(std::move(entry->second.server));
    entry = all.by_job.erase(entry);
  }
  return taken;
}

}  // namespace

Outcome make_unique_id(UniqueId& id) {
  reap_stores();
  const std::string secret = random_hex(kSecretBytes);
  const std::string job = random_hex(kJobBytes);
  Meeting meeting{{}, job_id_of(job), secret};
  auto server = start_store(meeting);
  if (!server.is_ok()) return server.status().with_context("starting the store where the ranks of a unique id meet");
  const auto addresses = reachable_addresses(SocketAddress{server.value()->address()}.port());
  if (!addresses.is_ok()) return addresses.status();
  std::memset(&id, 0, sizeof id);
  std::memcpy(id.internal, kMagic, sizeof kMagic);
  from_hex(secret, id.internal + sizeof kMagic);
  from_hex(job, id.internal + sizeof kMagic + kSecretBytes);
  std::memcpy(id.internal + kTextAt, addresses.value().data(), addresses.value().size());
  Stores& all = stores();
  const std::lock_guard lock(all.mutex);
  all.by_job.emplace(meeting.job_id, Store{current_pid(), false, std::move(server).value()});
  return {};
}

Outcome decode_unique_id(const UniqueId& id, Meeting& meeting) {
  const bool ours = std::memcmp(id.internal, kMagic, sizeof kMagic) == 0;
  const char* text = id.internal + kTextAt;
  const std::size_t length = ::strnlen(text, kTextBytes);
  if (!ours || length == 0 || length == kTextBytes) {
    return bad_argument(
        "the unique id was not made by this library's ncclGetUniqueId: all ranks must use the same libnccl.so.2, and "
        "all 128 bytes of the id must reach them");
  }
  meeting.addresses.assign(text, length);
  meeting.secret = to_hex(id.internal + sizeof kMagic, kSecretBytes);
  meeting.job_id = job_id_of(to_hex(id.internal + sizeof kMagic + kSecretBytes, kJobBytes));
  return {};
}

Result<std::shared_ptr<World>> join(const Meeting& meeting, int ranks, int rank) {
  WorldOptions options;
  options.job_id = meeting.job_id;
  options.epoch = 1;
  options.join_timeout_ms = kJoinTimeoutMs;
  options.rank = rank;
  options.size = ranks;
  options.standalone = ranks == 1;
  options.store_address = meeting.addresses;
  options.secret = meeting.secret;
  auto world = World::join(options);
  if (!world.is_ok()) return world.status();
  Stores& all = stores();
  const std::lock_guard lock(all.mutex);
  const auto own = all.by_job.find(meeting.job_id);
  if (own != all.by_job.end()) own->second.joined = true;
  return world;
}

void reap_stores() {
  (void)take_stores(
      [](const Store& store) { return store.joined && store.server->wait_until_empty(Deadline::after_ms(0)); });
}

void close_stores() {
  const Deadline deadline = Deadline::after_ms(kLingerMs);
  for (auto& server : take_stores([](const Store&) { return true; })) (void)server->wait_until_empty(deadline);
}

}  // namespace trireme::nccl
