#include <algorithm>
#include <functional>
#include <span>

#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>

#include "bench/device_perf/device_perf.h"
#include "runtime/transport/api/fabric.h"
#include "runtime/transport/table/api/transport_table.h"

namespace trireme::bench {
namespace {

constexpr std::uint64_t kTimeoutMs = 60'000;
constexpr std::uint64_t kContext = 1;

class Messages {
 public:
  Messages(Fabric& fabric, Channel& channel) : bell_(fabric.doorbell()), channel_(channel) {}

  // Until the peer has read it.
  Status send(std::span<const std::byte> data) {
    return until([&] {
      data = data.subspan(channel_.send_in_place(data));
      channel_.progress();
      return data.empty() && channel_.drained();
    });
  }
  Status receive(std::span<std::byte> data) {
    return until([&] {
      data = data.subspan(channel_.receive_some(data));
      return data.empty();
    });
  }

 private:
  Status until(const std::function<bool()>& attempt) {
    const Deadline deadline = Deadline::after_ms(kTimeoutMs);
    for (;;) {
      const std::uint32_t seen = bell_.value();
      if (attempt()) return Status::ok();
      TRIREME_RETURN_IF_ERROR(channel_.status());
      if (!bell_.wait(seen, deadline)) return deadline_exceeded("the other rank has not moved for a minute");
    }
  }

  Doorbell& bell_;
  Channel& channel_;
};

// Rank 0 sends; rank 1 receives, compares the first message, and answers with a byte of its host.
Result<double> time_messages(Messages& messages, bool sends, const DeviceMemory& memory, std::uint64_t bytes,
                             int iterations) {
  std::vector<double> times;
  std::byte answer{};
  for (int i = 0; i <= iterations; ++i) {
    const std::uint64_t begin = system_clock().now_ns();
    if (sends) {
      TRIREME_RETURN_IF_ERROR(messages.send({memory.data(), bytes}));
      TRIREME_RETURN_IF_ERROR(messages.receive({&answer, 1}));
    } else {
      TRIREME_RETURN_IF_ERROR(messages.receive({memory.data(), bytes}));
      TRIREME_RETURN_IF_ERROR(messages.send({&answer, 1}));
    }
    if (i > 0) times.push_back(static_cast<double>(system_clock().now_ns() - begin) * 1e-3);
  }
  return median(std::move(times));
}

}  // namespace

Result<std::vector<DevicePerfRow>> measure_channel(const DevicePerfOptions& options) {
  TRIREME_ASSIGN_OR_RETURN(const auto gpus, find_gpus());
  TRIREME_ASSIGN_OR_RETURN(const std::shared_ptr<World> world, World::join());
  if (world->size() != 2)
    return invalid_argument("--channel needs two ranks: trireme run -n 2 -- device_perf --channel");
  FabricOptions fabric_options;
  fabric_options.transports = transport_table();
  fabric_options.forced_transport = "cuda_ipc";
  TRIREME_ASSIGN_OR_RETURN(const std::unique_ptr<Fabric> fabric, Fabric::create(world, fabric_options));
  const bool sends = world->rank() == 0;
  TRIREME_ASSIGN_OR_RETURN(const std::unique_ptr<Channel> channel, fabric->open_channel(1 - world->rank(), kContext));
  const auto gpu = gpus[static_cast<std::size_t>(world->local_rank()) % gpus.size()];
  TRIREME_ASSIGN_OR_RETURN(const DeviceMemory memory,
                           DeviceMemory::allocate(gpu, options.max_bytes, MemoryKind::device));
  TRIREME_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, gpu->make_stream());
  const auto data = test_bytes(options.max_bytes, 3);
  if (sends) TRIREME_RETURN_IF_ERROR(stream->copy(memory.data(), data.data(), data.size()));
  TRIREME_RETURN_IF_ERROR(stream->synchronize());
  Messages messages(*fabric, *channel);
  std::vector<DevicePerfRow> rows;
  for (std::uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes *= static_cast<std::uint64_t>(options.factor)) {
    TRIREME_ASSIGN_OR_RETURN(const double time_us, time_messages(messages, sends, memory, bytes, options.iterations));
    if (sends) rows.push_back({"message over cuda_ipc", "rank 0", "rank 1", bytes, time_us});
    if (sends) continue;
    std::vector<std::byte> received(bytes);
    TRIREME_RETURN_IF_ERROR(stream->copy(received.data(), memory.data(), bytes));
    TRIREME_RETURN_IF_ERROR(stream->synchronize());
    if (!std::equal(received.begin(), received.end(), data.begin())) {
      return data_loss("a message of " + std::to_string(bytes) + " bytes arrived with other bytes than were sent");
    }
  }
  return rows;
}

}  // namespace trireme::bench
