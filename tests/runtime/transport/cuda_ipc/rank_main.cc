// One of two ranks as a process: test_cuda_ipc_rank SCENARIO RANK STORE SECRET
// Rank 0 sends GPU memory, rank 1 receives it. Prints "ready" once both have spoken, and
// the Status at the end.
// Exit codes: 0 everything as the scenario has it; 1 anything else.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include <trireme/rendezvous/world.h>

#include "tests/contract/support.h"
#include "tests/runtime/transport/cuda_ipc/gpu_memory.h"
#include "tests/runtime/transport/cuda_ipc/over_shm.h"

namespace trireme::test {
namespace {

struct Pair {
  Fabric& fabric;
  Channel& channel;
  bool sends;
};

Status send_and_drain(const Pair& pair, std::span<const std::byte> data) {
  TRIREME_RETURN_IF_ERROR(wait_until(pair.fabric.doorbell(), pair.channel, [&] {
    data = data.subspan(pair.channel.send_in_place(data));
    return data.empty();
  }));
  return wait_until(pair.fabric.doorbell(), pair.channel, [&] {
    pair.channel.progress();
    return pair.channel.drained();
  });
}

// One message of GPU memory, received there or on the host.
Status transfer(const Pair& pair, std::size_t bytes, std::uint64_t seed, GpuAllocator allocator, bool to_gpu,
                std::set<const std::byte*>* addresses = nullptr) {
  const auto data = pattern(bytes, seed);
  if (pair.sends || to_gpu) {
    GpuMemory memory(bytes, pair.sends ? allocator : GpuAllocator::plain);
    if (addresses != nullptr) addresses->insert(memory.span().data());
    if (pair.sends) {
      memory.write(data);
      return send_and_drain(pair, memory.span());
    }
    TRIREME_RETURN_IF_ERROR(receive_all(pair.fabric.doorbell(), pair.channel, memory.span()));
    return memory.read() == data ? Status::ok() : data_loss("other bytes on the GPU");
  }
  std::vector<std::byte> in(bytes);
  TRIREME_RETURN_IF_ERROR(receive_all(pair.fabric.doorbell(), pair.channel, in));
  return in == data ? Status::ok() : data_loss("other bytes on the host");
}

Status transfers(const Pair& pair, GpuAllocator allocator) {
  for (const bool to_gpu : {true, false}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{100'003}, std::size_t{9} << 20}) {
      TRIREME_RETURN_IF_ERROR(transfer(pair, bytes, bytes, allocator, to_gpu));
    }
  }
  return Status::ok();
}

// Memory is freed and allocated anew at the same address, which must not be taken for the old.
Status reuse(const Pair& pair, GpuAllocator allocator) {
  constexpr int kRounds = 20;
  std::set<const std::byte*> addresses;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    TRIREME_RETURN_IF_ERROR(transfer(pair, 50'000, round, allocator, round % 2 == 0, &addresses));
  }
  if (addresses.size() < kRounds) return Status::ok();
  return unavailable("no address was used again: this run proves nothing");
}

Status meet(const Pair& pair) {
  std::byte out{1};
  std::byte in{};
  return exchange_all(pair.fabric.doorbell(), pair.channel, std::span(&out, 1), std::span(&in, 1));
}

Status play(const std::string& scenario, const Pair& pair) {
  TRIREME_RETURN_IF_ERROR(meet(pair));
  std::puts("ready");
  std::fflush(stdout);
  const std::string explained = pair.fabric.explain(pair.sends ? 1 : 0);
  const bool through_host = explained.find("goes through the host") != std::string::npos;
  // In that scenario it is rank 1 that cannot read rank 0's memory.
  if (through_host != (scenario == "fallback" && !pair.sends)) return unavailable(explained);
  if (scenario == "handles") return transfers(pair, GpuAllocator::plain);
  if (scenario == "descriptors") return transfers(pair, GpuAllocator::descriptor);
  if (scenario == "unshared") return transfers(pair, GpuAllocator::unshared);
  if (scenario == "reuse") return reuse(pair, GpuAllocator::plain);
  if (scenario == "reuse_descriptors") return reuse(pair, GpuAllocator::descriptor);
  if (scenario == "fallback") return transfers(pair, GpuAllocator::plain);
  if (scenario != "death") return invalid_argument("no scenario " + scenario);
  // Rank 0 is killed while rank 1 waits for more GPU memory.
  GpuMemory memory(1000);
  const Status status = receive_all(pair.fabric.doorbell(), pair.channel, memory.span());
  const bool named = status.code() == StatusCode::peer_dead && status.message().find("rank 0 ") != std::string::npos;
  return named ? Status::ok() : unavailable("expected the death of rank 0, got " + status.to_string());
}

Status run(char** arguments) {
  WorldOptions options;
  options.rank = std::atoi(arguments[2]);
  options.size = 2;
  options.store_address = arguments[3];
  options.secret = arguments[4];
  options.job_id = "cuda_ipc";
  options.epoch = 1;
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<World> world, World::join(options));
  const TransportFactory factory = cuda_ipc_over_shm();
  FabricOptions fabric_options;
  fabric_options.transports = std::span(&factory, 1);
  fabric_options.forced_transport = factory.name;
  TRIREME_ASSIGN_OR_RETURN(std::unique_ptr<Fabric> fabric, Fabric::create(world, fabric_options));
  TRIREME_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, fabric->open_channel(1 - options.rank, 7));
  const Pair pair{*fabric, *channel, options.rank == 0};
  TRIREME_RETURN_IF_ERROR(play(arguments[1], pair));
  const std::string scenario = arguments[1];
  return scenario == "death" ? Status::ok() : meet(pair);  // Nobody closes before the other has all.
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: test_cuda_ipc_rank SCENARIO RANK STORE SECRET\n");
    return 2;
  }
  const trireme::Status status = trireme::test::run(argv);
  std::printf("%s\n", status.to_string().c_str());
  return status.is_ok() ? 0 : 1;
}
