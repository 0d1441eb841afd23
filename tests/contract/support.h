// Ranks as threads of this process, each with a World and a Fabric, and the blocking
// transfers that tests are written in.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/transport/api/fabric.h"
#include "tests/hosts/namespaces.h"

namespace trireme::test {

inline constexpr std::uint64_t kPatienceMs = 60'000;

// Worlds and fabrics of `size` ranks on one transport. Aborts the program when they
// cannot be made, for then nothing can be tested.
class LocalFabrics {
 public:
  LocalFabrics(int size, const TransportFactory& factory, std::size_t channel_bytes)
      : LocalFabrics(local_worlds(size), factory, channel_bytes) {}
  LocalFabrics(std::vector<std::shared_ptr<World>> worlds, const TransportFactory& factory, std::size_t channel_bytes);
  // Rank r on host r of `hosts`, which has at least `size`.
  LocalFabrics(const Namespaces& hosts, int size, const TransportFactory& factory, std::size_t channel_bytes);
  static std::vector<std::shared_ptr<World>> local_worlds(int size);
  Fabric& rank(int r) { return *fabrics_[static_cast<std::size_t>(r)]; }
  int size() const { return static_cast<int>(worlds_.size()); }
  std::unique_ptr<Channel> open(int from, int to, std::uint64_t context);
  // Runs body(r) on one thread per rank.
  void run(const std::function<void(int)>& body);

 private:
  void create_fabrics(const TransportFactory& factory, std::size_t channel_bytes,
                      const std::function<void(int)>& enter);
  std::vector<std::shared_ptr<World>> worlds_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
};

// Where the ranks of a contract test live, and what carries their bytes.
struct ContractRow {
  std::string name;
  TransportFactory factory;
  std::optional<Addressing> hosts;  // None: all on this host.
  int streams = 0;                  // TRIREME_TCP_STREAMS
};
// One row per transport of the table, then tcp once more: striped, and between network
// namespaces of each kind.
std::vector<ContractRow> contract_rows();

// Runs body(0) .. body(count - 1) on threads of their own and joins them.
void on_threads(int count, const std::function<void(int)>& body);

// Bytes that differ by stream and position.
std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed);

// Calls `attempt` until it returns true, sleeping on the doorbell in between. Errors: the
// channel's status; deadline_exceeded after kPatienceMs.
Status wait_until(Doorbell& doorbell, Channel& channel, const std::function<bool()>& attempt);
Status send_all(Doorbell& doorbell, Channel& channel, std::span<const std::byte> data);
Status receive_all(Doorbell& doorbell, Channel& channel, std::span<std::byte> data);
// Both at once, as an executor would.
Status exchange_all(Doorbell& doorbell, Channel& channel, std::span<const std::byte> out, std::span<std::byte> in);

std::size_t open_descriptors();

// The transports a suite runs over: the table's, or, in a suite that is built a second
// time over devices of the tests' own, those.
std::span<const TransportFactory> contract_transports();
// Why this machine cannot run a transport that needs hardware; "" when it can. A transport
// that works everywhere is never excused.
std::string why_not_here(const TransportFactory& factory);

}  // namespace trireme::test
