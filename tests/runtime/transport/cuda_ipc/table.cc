// The contract suite over the stand-in's GPUs: as it is, and with every byte that is sent or
// received by copy in GPU memory on both sides.
#include <algorithm>
#include <utility>

#include "tests/contract/support.h"
#include "tests/runtime/transport/cuda_ipc/gpu_memory.h"
#include "tests/runtime/transport/cuda_ipc/over_shm.h"

namespace trireme::test {
namespace {

constexpr std::size_t kWindow = 64 * 1024;

// Hands the channel below GPU memory wherever the suite hands it host memory.
class OnGpuChannel final : public Channel {
 public:
  explicit OnGpuChannel(std::unique_ptr<Channel> below) : below_(std::move(below)) {}

  std::span<std::byte> reserve() override { return below_->reserve(); }
  void commit(std::size_t bytes) override { below_->commit(bytes); }
  std::span<const std::byte> peek() override { return below_->peek(); }
  void consume(std::size_t bytes) override { below_->consume(bytes); }
  bool progress() override { return below_->progress(); }
  Status status() const override { return below_->status(); }
  bool drained() const override { return below_->drained(); }
  std::string_view transport() const override { return below_->transport(); }

  std::size_t send_some(std::span<const std::byte> data) override {
    data = data.first(std::min(data.size(), kWindow));
    if (data.empty()) return 0;
    // Other bytes lie elsewhere: a copy of those before may have begun.
    if (!std::equal(data.begin(), data.end(), sent_.begin(), sent_.end())) {
      sent_.assign(data.begin(), data.end());
      std::swap(out_, spare_);
      out_->write(data);
    }
    // One that asks as long as bytes move, as the suite does, must find them moved.
    std::size_t moved = 0;
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    do {
      moved = below_->send_some(out_->span().first(data.size()));
    } while (moved == 0 && below_->status().is_ok() && !below_->reserve().empty() && !deadline.expired());
    return moved;
  }
  std::size_t receive_some(std::span<std::byte> data) override {
    const std::size_t moved = below_->receive_some(in_.span().first(std::min(data.size(), kWindow)));
    const auto arrived = in_.read(moved);
    std::copy_n(arrived.begin(), moved, data.begin());
    return moved;
  }

 private:
  std::unique_ptr<Channel> below_;
  std::unique_ptr<GpuMemory> out_ = std::make_unique<GpuMemory>(kWindow);
  std::unique_ptr<GpuMemory> spare_ = std::make_unique<GpuMemory>(kWindow);
  GpuMemory in_{kWindow};
  std::vector<std::byte> sent_;  // What *out_ holds.
};

class OnGpuTransport final : public Transport {
 public:
  explicit OnGpuTransport(std::unique_ptr<Transport> below) : below_(std::move(below)) {}
  std::string_view name() const override { return below_->name(); }
  TransportCapabilities capabilities() const override { return below_->capabilities(); }
  std::string advertisement() const override { return below_->advertisement(); }
  Reach reach(const PeerInfo& peer, std::string_view peer_advertisement) const override {
    return below_->reach(peer, peer_advertisement);
  }
  Result<std::unique_ptr<Channel>> open(const PeerInfo& peer, std::string_view peer_advertisement,
                                        std::uint64_t context) override {
    TRIREME_ASSIGN_OR_RETURN(auto channel, below_->open(peer, peer_advertisement, context));
    return std::unique_ptr<Channel>(std::make_unique<OnGpuChannel>(std::move(channel)));
  }

 private:
  std::unique_ptr<Transport> below_;
};

Result<std::unique_ptr<Transport>> create_on_gpu(const TransportEnvironment& environment) {
  TRIREME_ASSIGN_OR_RETURN(auto below, cuda_ipc_over_shm().create(environment));
  return std::unique_ptr<Transport>(std::make_unique<OnGpuTransport>(std::move(below)));
}

}  // namespace

std::span<const TransportFactory> contract_transports() {
  static const TransportFactory kTable[] = {cuda_ipc_over_shm()};
  return kTable;
}

std::vector<ContractRow> contract_rows() {
  return {{"cuda_ipc", contract_transports()[0], {}, 0}, {"cuda_ipc_on_gpu", {"cuda_ipc", create_on_gpu}, {}, 0}};
}

}  // namespace trireme::test
