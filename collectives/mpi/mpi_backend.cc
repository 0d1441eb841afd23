#include "collectives/mpi/mpi_backend.h"

#include <algorithm>
#include <array>
#include <climits>

#include <fmt/core.h>
#include <trireme/platform/environment.h>

#include "collectives/backend/plugin.h"
#include "collectives/mpi/adapter.h"

namespace trireme {
namespace {

using mpi::Adapter;
using mpi::AdapterCall;

// Where the adapter writes what went wrong.
class Words {
 public:
  mpi::Text text() { return {buffer_.data(), buffer_.size()}; }
  std::string str() const { return buffer_.data(); }

 private:
  std::array<char, 1024> buffer_{};
};

class MpiRequest final : public BackendRequest {
 public:
  MpiRequest(const Adapter& adapter, void* request) : adapter_(adapter), request_(request) {}
  Result<bool> test() override {
    Words words;
    const int result = adapter_.test(request_, words.text());
    if (result < 0) return io_error("backend mpi: " + words.str());
    return result > 0;
  }

 private:
  const Adapter& adapter_;
  void* request_;
};

class MpiCommunicator final : public BackendCommunicator {
 public:
  MpiCommunicator(const Adapter& adapter, void* communicator) : adapter_(adapter), communicator_(communicator) {
    Words version;
    adapter_.library_version(version.text());
    info_.name = "mpi";
    info_.version = version.str();
    info_.abortable = info_.names_culprit = false;
    info_.low_precision_sums = info_.average = info_.scaled_and_custom = false;
    info_.ranks_as_threads = false;
  }
  ~MpiCommunicator() override { adapter_.close(communicator_); }

  const BackendInfo& info() const override { return info_; }

  Status supports(const Call& call, const CallDetails* details) const override {
    const bool reduces = !is_message(call.kind) && plan::reduces(collective_of(call.kind));
    if (reduces && is_low_precision(call.type)) {
      return backend_refuses("mpi", call, "does not reduce " + std::string(to_string(call.type)));
    }
    if (reduces && call.combining != Combining::named) {
      return backend_refuses("mpi", call, "has only named reductions");
    }
    if (reduces && call.op == ReduceOp::average) return backend_refuses("mpi", call, "has no average");
    std::uint64_t most = call.count;
    if (details != nullptr) {
      // What an all_to_all_v sends and receives in all.
      for (const auto* counts : {&details->counts, &details->receive_counts}) {
        std::uint64_t sum = 0;
        for (const std::int64_t count : *counts) sum += static_cast<std::uint64_t>(count);
        most = std::max(most, sum);
      }
    }
    if (most > INT_MAX) return backend_refuses("mpi", call, fmt::format("counts in int: at most {} elements", INT_MAX));
    return {};
  }

  Result<std::unique_ptr<BackendRequest>> start(const Call& call, const CallDetails* details, const void* input,
                                                void* output) override {
    AdapterCall arguments;
    arguments.kind = static_cast<int>(call.kind);
    arguments.type = static_cast<int>(call.type);
    arguments.op = static_cast<int>(call.op);
    arguments.root = call.root;
    arguments.tag = call.tag;
    arguments.count = call.count;
    arguments.input = input;
    arguments.output = output;
    if (details != nullptr && !details->counts.empty()) arguments.counts = details->counts.data();
    if (details != nullptr && !details->receive_counts.empty()) {
      arguments.receive_counts = details->receive_counts.data();
    }
    Words words;
    void* request = adapter_.start(communicator_, &arguments, words.text());
    if (request == nullptr) return io_error(fmt::format("{}: backend mpi: {}", describe(call), words.str()));
    return std::unique_ptr<BackendRequest>(std::make_unique<MpiRequest>(adapter_, request));
  }

  BackendResult split(int color, int key) override {
    Words words;
    void* part = adapter_.split(communicator_, color, key, words.text());
    if (part == nullptr && color >= 0) return io_error("backend mpi: " + words.str());
    if (part == nullptr) return std::unique_ptr<BackendCommunicator>();
    return std::unique_ptr<BackendCommunicator>(std::make_unique<MpiCommunicator>(adapter_, part));
  }

 private:
  const Adapter& adapter_;
  void* communicator_;
  BackendInfo info_;
};

Status check_ranks(const World& world) {
  const PeerInfo& self = world.peer(world.rank());
  for (int rank = 0; rank < world.size(); ++rank) {
    const PeerInfo& peer = world.peer(rank);
    if (rank == world.rank() || peer.pid != self.pid || peer.host_identity != self.host_identity) continue;
    return unsupported(
        fmt::format("rank {} and rank {} are threads of one process; MPI has one rank a process: start "
                    "ranks by mpirun, without -t",
                    world.rank(), rank));
  }
  return {};
}

// MPI_Init under another launcher would make a world of one, or end the program.
Status check_launcher(const Adapter& adapter) {
  if (adapter.is_initialized() || environment("OMPI_COMM_WORLD_SIZE") || environment("PMIX_NAMESPACE")) return {};
  return unavailable(
      "this process was not started by an MPI launcher, so MPI would know no other rank: start the program by `mpirun "
      "-n N` or `srun --mpi=pmix` instead of `trireme run`");
}

}  // namespace

BackendResult make_mpi_backend(const std::shared_ptr<World>& world) {
  TRIREME_RETURN_IF_ERROR(check_ranks(*world));
  TRIREME_ASSIGN_OR_RETURN(void* const symbol, load_plugin("libtrireme_mpi.so", mpi::kAdapterSymbol));
  const Adapter& adapter = *reinterpret_cast<const Adapter* (*)()>(symbol)();
  if (adapter.version != mpi::kAdapterVersion) {
    return unavailable(
        fmt::format("libtrireme_mpi.so speaks version {} of its interface, this library version {}: "
                    "install both from one build",
                    adapter.version, mpi::kAdapterVersion));
  }
  TRIREME_RETURN_IF_ERROR(check_launcher(adapter));
  Words words;
  void* communicator = adapter.open(words.text());
  if (communicator == nullptr) return unavailable(words.str());
  auto made = std::make_unique<MpiCommunicator>(adapter, communicator);
  const int rank = adapter.rank(communicator);
  const int size = adapter.size(communicator);
  if (rank != world->rank() || size != world->size()) {
    return mismatch(
        fmt::format("MPI says that this is rank {} of {}, the World rank {} of {}: start both from the same "
                    "mpirun",
                    rank, size, world->rank(), world->size()));
  }
  return std::unique_ptr<BackendCommunicator>(std::move(made));
}

}  // namespace trireme
