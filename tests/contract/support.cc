#include "tests/contract/support.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include <trireme/base/hash.h>

#include "runtime/rendezvous/api/local_worlds.h"

namespace trireme::test {
namespace {

template <typename T>
T must(Result<T> result) {
  if (!result.is_ok()) {
    std::fprintf(stderr, "setting up ranks: %s\n", result.status().to_string().c_str());
    std::abort();
  }
  return std::move(result).value();
}

}  // namespace

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::shared_ptr<World>> LocalFabrics::local_worlds(int size) {
  return must(make_local_worlds(size));
}

LocalFabrics::LocalFabrics(std::vector<std::shared_ptr<World>> worlds, const TransportFactory& factory,
                           std::size_t channel_bytes)
    : worlds_(std::move(worlds)), fabrics_(worlds_.size()) {
  create_fabrics(factory, channel_bytes, [](int) {});
}

// The store is reached through a file, which all namespaces see.
LocalFabrics::LocalFabrics(const Namespaces& hosts, int size, const TransportFactory& factory,
                           std::size_t channel_bytes)
    : fabrics_(static_cast<std::size_t>(size)) {
  static std::atomic<int> count{0};
  LocalWorldsOptions options;
  options.ranks_per_host = 1;
  options.listen_address = "unix:/tmp/trireme-contract-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  worlds_ = must(make_local_worlds(size, options));
  unlink(options.listen_address.c_str() + 5);
  create_fabrics(factory, channel_bytes, [&hosts](int r) { hosts.enter(r); });
}

void LocalFabrics::create_fabrics(const TransportFactory& factory, std::size_t channel_bytes,
                                  const std::function<void(int)>& enter) {
  FabricOptions options;
  options.transports = std::span(&factory, 1);
  options.forced_transport = factory.name;
  options.channel_bytes = channel_bytes;
  run([&](int r) {
    enter(r);
    const auto index = static_cast<std::size_t>(r);
    fabrics_[index] = must(Fabric::create(worlds_[index], options));
  });
}

void LocalFabrics::run(const std::function<void(int)>& body) {
  on_threads(size(), body);
}

std::unique_ptr<Channel> LocalFabrics::open(int from, int to, std::uint64_t context) {
  return must(rank(from).open_channel(to, context));
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = hash64(&i, sizeof i, seed);
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return data;
}

Status wait_until(Doorbell& doorbell, Channel& channel, const std::function<bool()>& attempt) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  for (;;) {
    const std::uint32_t seen = doorbell.value();
    if (attempt()) return Status::ok();
    TRIREME_RETURN_IF_ERROR(channel.status());
    if (!doorbell.wait(seen, deadline)) return deadline_exceeded("the doorbell did not ring");
  }
}

Status send_all(Doorbell& doorbell, Channel& channel, std::span<const std::byte> data) {
  return wait_until(doorbell, channel, [&] {
    data = data.subspan(channel.send_some(data));
    return data.empty();
  });
}

Status receive_all(Doorbell& doorbell, Channel& channel, std::span<std::byte> data) {
  return wait_until(doorbell, channel, [&] {
    data = data.subspan(channel.receive_some(data));
    return data.empty();
  });
}

Status exchange_all(Doorbell& doorbell, Channel& channel, std::span<const std::byte> out, std::span<std::byte> in) {
  return wait_until(doorbell, channel, [&] {
    out = out.subspan(channel.send_some(out));
    in = in.subspan(channel.receive_some(in));
    return out.empty() && in.empty();
  });
}

std::size_t open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  std::size_t count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

std::string why_not_here(const TransportFactory& factory) {
  if (factory.name == "shm" || factory.name == "tcp") return "";
  // Asking opens devices: once is enough.
  static std::mutex mutex;
  static std::map<std::string, std::string, std::less<>> reasons;
  const std::lock_guard lock(mutex);
  const auto known = reasons.find(factory.name);
  if (known != reasons.end()) return known->second;
  FabricOptions options;
  options.transports = std::span(&factory, 1);
  options.forced_transport = factory.name;
  const auto worlds = LocalFabrics::local_worlds(2);
  std::string reason;
  std::mutex reason_mutex;
  on_threads(2, [&](int r) {
    const auto fabric = Fabric::create(worlds[static_cast<std::size_t>(r)], options);
    const std::lock_guard reason_lock(reason_mutex);
    if (!fabric.is_ok() && fabric.status().code() == StatusCode::unavailable) reason = fabric.status().message();
  });
  reasons.emplace(factory.name, reason);
  return reason;
}

}  // namespace trireme::test
