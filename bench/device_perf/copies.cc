#include <algorithm>
#include <cstring>

#include <trireme/base/hash.h>
#include <trireme/platform/clock.h>

#include "bench/device_perf/device_perf.h"

namespace trireme::bench {
namespace {

class Copies {
 public:
  Copies(const DevicePerfOptions& options, std::vector<DevicePerfRow>& rows) : options_(options), rows_(rows) {}

  Status between_host_and(const std::shared_ptr<Device>& gpu) {
    const std::string name = gpu->id().to_string();
    TRIREME_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, gpu->make_stream());
    TRIREME_ASSIGN_OR_RETURN(const DeviceMemory device,
                             DeviceMemory::allocate(gpu, options_.max_bytes, MemoryKind::device));
    TRIREME_ASSIGN_OR_RETURN(const DeviceMemory pinned,
                             DeviceMemory::allocate(gpu, options_.max_bytes, MemoryKind::pinned_host));
    std::vector<std::byte> pageable(options_.max_bytes);
    const auto data = test_bytes(options_.max_bytes, 1);
    std::memcpy(pinned.data(), data.data(), data.size());
    TRIREME_RETURN_IF_ERROR(time({"pinned to device", "cpu", name, 0, 0}, *stream, device.data(), pinned.data()));
    std::memset(pinned.data(), 0, data.size());
    TRIREME_RETURN_IF_ERROR(time({"device to pinned", name, "cpu", 0, 0}, *stream, pinned.data(), device.data()));
    TRIREME_RETURN_IF_ERROR(compare(pinned.data(), data, "pinned memory by way of " + name));
    TRIREME_RETURN_IF_ERROR(time({"device to pageable", name, "cpu", 0, 0}, *stream, pageable.data(), device.data()));
    TRIREME_RETURN_IF_ERROR(compare(pageable.data(), data, "pageable memory from " + name));
    return time({"pageable to device", "cpu", name, 0, 0}, *stream, device.data(), pageable.data());
  }

  Status between(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to) {
    if (from != to && !from->enable_peer_access(*to).is_ok()) return Status::ok();
    TRIREME_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, from->make_stream());
    TRIREME_ASSIGN_OR_RETURN(const DeviceMemory source,
                             DeviceMemory::allocate(from, options_.max_bytes, MemoryKind::device));
    TRIREME_ASSIGN_OR_RETURN(const DeviceMemory target,
                             DeviceMemory::allocate(to, options_.max_bytes, MemoryKind::device));
    const auto data = test_bytes(options_.max_bytes, 2);
    TRIREME_RETURN_IF_ERROR(stream->copy(source.data(), data.data(), data.size()));
    TRIREME_RETURN_IF_ERROR(stream->synchronize());
    DevicePerfRow row{from == to ? "device to device" : "peer", from->id().to_string(), to->id().to_string(), 0, 0};
    TRIREME_RETURN_IF_ERROR(time(row, *stream, target.data(), source.data()));
    std::vector<std::byte> back(data.size());
    TRIREME_RETURN_IF_ERROR(stream->copy(back.data(), target.data(), back.size()));
    TRIREME_RETURN_IF_ERROR(stream->synchronize());
    return compare(back.data(), data, row.kind + " from " + row.from + " to " + row.to);
  }

 private:
  Status time(DevicePerfRow row, Stream& stream, std::byte* to, const std::byte* from) {
    for (row.bytes = options_.min_bytes; row.bytes <= options_.max_bytes;
         row.bytes *= static_cast<std::uint64_t>(options_.factor)) {
      std::vector<double> times;
      for (int i = 0; i <= options_.iterations; ++i) {
        const std::uint64_t begin = system_clock().now_ns();
        TRIREME_RETURN_IF_ERROR(stream.copy(to, from, row.bytes));
        TRIREME_RETURN_IF_ERROR(stream.synchronize());
        if (i > 0) times.push_back(static_cast<double>(system_clock().now_ns() - begin) * 1e-3);
      }
      row.time_us = median(std::move(times));
      rows_.push_back(row);
    }
    // All of it, whatever the largest size measured is.
    TRIREME_RETURN_IF_ERROR(stream.copy(to, from, options_.max_bytes));
    return stream.synchronize();
  }

  static Status compare(const std::byte* found, const std::vector<std::byte>& expected, const std::string& what) {
    const auto [at, ignored] = std::mismatch(expected.begin(), expected.end(), found);
    if (at == expected.end()) return Status::ok();
    return data_loss(what + ": byte " + std::to_string(at - expected.begin()) + " differs from what was copied");
  }

  const DevicePerfOptions& options_;
  std::vector<DevicePerfRow>& rows_;
};

}  // namespace

Result<std::vector<std::shared_ptr<Device>>> find_gpus() {
  std::vector<std::shared_ptr<Device>> gpus;
  for (const auto& device : devices().devices) {
    if (device->id().kind == DeviceKind::cuda) gpus.push_back(device);
  }
  if (gpus.empty()) return unavailable(devices().note);
  return gpus;
}

std::vector<std::byte> test_bytes(std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = hash64(&i, sizeof i, seed);
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return data;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Result<std::vector<DevicePerfRow>> measure_copies(const DevicePerfOptions& options) {
  TRIREME_ASSIGN_OR_RETURN(const auto gpus, find_gpus());
  std::vector<DevicePerfRow> rows;
  Copies copies(options, rows);
  for (const auto& gpu : gpus) TRIREME_RETURN_IF_ERROR(copies.between_host_and(gpu));
  for (const auto& from : gpus) {
    for (const auto& to : gpus) TRIREME_RETURN_IF_ERROR(copies.between(from, to));
  }
  return rows;
}

}  // namespace trireme::bench
