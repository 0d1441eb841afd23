#include "collectives/tune/measure.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>
#include <trireme/collectives/communicator.h>
#include <trireme/platform/clock.h>

namespace trireme::tune {
namespace {

constexpr int kPings = 400;
constexpr std::size_t kStreamBytes = std::size_t{4} << 20;
constexpr int kStreams = 8;
constexpr int kFewestRuns = 3;
constexpr int kMostRuns = 60;

double seconds_since(std::uint64_t begin_ns) {
  return static_cast<double>(system_clock().now_ns() - begin_ns) * 1e-9;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// One message each way, then a stream, between ranks 0 and 1; the rest waits.
Status measure_path(Communicator& communicator, plan::Network& network) {
  std::vector<char> data(kStreamBytes);
  TRIREME_RETURN_IF_ERROR(communicator.barrier());
  if (communicator.rank() > 1) return communicator.barrier();
  const int peer = 1 - communicator.rank();
  const auto pass = [&](std::size_t bytes, bool first) -> Status {
    const auto send = [&] { return communicator.send(data.data(), bytes, DataType::u8, peer); };
    const auto receive = [&] { return communicator.receive(data.data(), bytes, DataType::u8, peer); };
    TRIREME_RETURN_IF_ERROR(first ? send() : receive());
    return first ? receive() : send();
  };
  std::vector<double> pings;
  std::vector<double> streams;
  for (int i = 0; i < kPings + kStreams; ++i) {
    const std::uint64_t begin = system_clock().now_ns();
    TRIREME_RETURN_IF_ERROR(pass(i < kPings ? 8 : kStreamBytes, communicator.rank() == 0));
    (i < kPings ? pings : streams).push_back(seconds_since(begin) / 2);
  }
  network.alpha_s = std::max(1e-8, median(pings));
  network.beta_s_per_byte = std::max(1e-8, median(streams) - network.alpha_s) / static_cast<double>(kStreamBytes);
  return communicator.barrier();
}

void measure_work(plan::Network& network) {
  std::vector<float> a(kStreamBytes / 4, 1.0f);
  std::vector<float> b(kStreamBytes / 4, 2.0f);
  std::vector<double> times;
  for (int run = 0; run < 9; ++run) {
    const std::uint64_t begin = system_clock().now_ns();
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    times.push_back(seconds_since(begin));
    b[static_cast<std::size_t>(run)] += a[0];  // So that the loop is not left out.
  }
  network.gamma_s_per_byte = std::max(1e-9, median(times)) / static_cast<double>(kStreamBytes);
}

// One call whose larger buffer has `request`'s elements.
Status call(Communicator& communicator, const plan::Request& request, const void* input, void* output) {
  const auto count = static_cast<std::size_t>(request.count);
  const auto type = DataType::f32;
  switch (request.collective) {
    case plan::Collective::all_reduce:
      return communicator.all_reduce(input, output, count, type, ReduceOp::sum);
    case plan::Collective::reduce:
      return communicator.reduce(input, output, count, type, ReduceOp::sum, 0);
    case plan::Collective::broadcast:
      return communicator.broadcast(input, output, count, type, 0);
    case plan::Collective::all_gather:
      return communicator.all_gather(input, output, count, type);
    case plan::Collective::reduce_scatter:
      return communicator.reduce_scatter(input, output, count, type, ReduceOp::sum);
    case plan::Collective::gather:
      return communicator.gather(input, output, count, type, 0);
    case plan::Collective::scatter:
      return communicator.scatter(input, output, count, type, 0);
    case plan::Collective::all_to_all:
      return communicator.all_to_all(input, output, count, type);
    case plan::Collective::barrier:
      return communicator.barrier();
  }
  return invalid_argument("a collective that trireme tune cannot call");
}

plan::Request request_of(plan::Collective collective, int ranks, std::uint64_t bytes) {
  plan::Request request;
  request.collective = collective;
  request.ranks = ranks;
  request.element_bytes = 4;
  request.count = 1;
  const std::int64_t widest = std::max(plan::input_elements(request, 0), plan::output_elements(request, 0));
  request.count = collective == plan::Collective::barrier ? 0 : static_cast<std::int64_t>(bytes) / 4 / widest;
  return request;
}

class Measurement {
 public:
  Measurement(std::shared_ptr<World> world, const MeasureOptions& options,
              const std::function<void(const std::string&)>& progress)
      : world_(std::move(world)), options_(options), progress_(progress) {}

  Result<TuningTable> run() {
    TRIREME_ASSIGN_OR_RETURN(plain_, Communicator::create(world_));
    table_.machine = machine_identity();
    table_.algorithms = algorithm_names();
    table_.ranks = world_->size();
    TRIREME_RETURN_IF_ERROR(measure_path(*plain_, table_.network));
    measure_work(table_.network);
    for (const plan::Algorithm& algorithm : plan::algorithms()) TRIREME_RETURN_IF_ERROR(measure_algorithm(algorithm));
    return std::move(table_);
  }

 private:
  Status measure_algorithm(const plan::Algorithm& algorithm) {
    CommunicatorOptions forced;
    forced.algorithm = algorithm.name;
    TRIREME_ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> communicator, Communicator::create(world_, forced));
    for (int i = 0; i < plan::kCollectiveCount; ++i) {
      const auto collective = static_cast<plan::Collective>(i);
      const bool barrier = collective == plan::Collective::barrier;
      double last = 0;
      for (std::uint64_t bytes = options_.smallest_bytes; bytes <= options_.largest_bytes; bytes *= 4) {
        plan::Request request = request_of(collective, world_->size(), bytes);
        request.shared_memory = shares_memory(*communicator);
        if (!algorithm.supports(request)) request.windows = request.shared_memory;
        if ((request.count == 0 && !barrier) || !algorithm.supports(request)) continue;
        TRIREME_ASSIGN_OR_RETURN(last, measure_with_buffers(*communicator, request));
        const std::int64_t elements = std::max(plan::input_elements(request, 0), plan::output_elements(request, 0));
        table_.times.push_back(
            {collective, std::string(algorithm.name), std::max<std::int64_t>(1, elements * 4), last});
        if (barrier) break;
      }
      if (last > 0 && world_->rank() == 0) {
        progress_(fmt::format("{} by {}: {:.1f} us at the largest size", plan::to_string(collective), algorithm.name,
                              last * 1e6));
      }
    }
    return Status::ok();
  }

  // Private buffers, or windows for an algorithm that needs them.
  Result<double> measure_with_buffers(Communicator& communicator, const plan::Request& request) {
    const std::int64_t elements = std::max(plan::input_elements(request, 0), plan::output_elements(request, 0));
    const std::size_t bytes = static_cast<std::size_t>(elements * 4) + 4;
    if (!request.windows) {
      const std::vector<char> input(bytes);
      std::vector<char> output(bytes);
      return measure_call(communicator, request, input.data(), output.data());
    }
    TRIREME_ASSIGN_OR_RETURN(void* const input, communicator.allocate(bytes));
    TRIREME_ASSIGN_OR_RETURN(void* const output, communicator.allocate(bytes));
    TRIREME_ASSIGN_OR_RETURN(const double seconds, measure_call(communicator, request, input, output));
    TRIREME_RETURN_IF_ERROR(communicator.deallocate(input));
    TRIREME_RETURN_IF_ERROR(communicator.deallocate(output));
    return seconds;
  }

  static bool shares_memory(const Communicator& communicator) {
    for (int rank = 0; rank < communicator.size(); ++rank) {
      if (rank != communicator.rank() && communicator.transport_to(rank) != "shm") return false;
    }
    return true;
  }

  // Seconds of one call on the slowest rank: the median of as many as the budget allows.
  Result<double> measure_call(Communicator& communicator, const plan::Request& request, const void* input,
                              void* output) {
    double first = 0;
    for (int warm = 0; warm < 2; ++warm) {
      const std::uint64_t begin = system_clock().now_ns();
      TRIREME_RETURN_IF_ERROR(call(communicator, request, input, output));
      first = seconds_since(begin);
    }
    // Every rank must make as many calls: the slowest decides.
    TRIREME_RETURN_IF_ERROR(plain_->all_reduce(&first, &first, 1, DataType::f64, ReduceOp::max));
    const double wanted = static_cast<double>(options_.budget_ms) * 1e-3 / std::max(first, 1e-7);
    const int runs = std::clamp(static_cast<int>(std::min(wanted, 1e6)), kFewestRuns, kMostRuns);
    std::vector<double> times;
    for (int run = 0; run < runs; ++run) {
      const std::uint64_t begin = system_clock().now_ns();
      TRIREME_RETURN_IF_ERROR(call(communicator, request, input, output));
      times.push_back(seconds_since(begin));
    }
    double slowest = median(times);
    TRIREME_RETURN_IF_ERROR(plain_->all_reduce(&slowest, &slowest, 1, DataType::f64, ReduceOp::max));
    return std::max(slowest, 1e-9);
  }

  std::shared_ptr<World> world_;
  const MeasureOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  std::shared_ptr<Communicator> plain_;
  TuningTable table_;
};

}  // namespace

Result<TuningTable> measure(const std::shared_ptr<World>& world, const MeasureOptions& options,
                            const std::function<void(const std::string&)>& progress) {
  if (world->size() < 2) return invalid_argument("trireme tune needs 2 ranks or more: one has nobody to send to");
  if (world->local_size() != world->size()) {
    return invalid_argument(
        fmt::format("trireme tune measures one host, but {} of the {} ranks are on others: start "
                    "it on each host by itself",
                    world->size() - world->local_size(), world->size()));
  }
  return Measurement(world, options, progress).run();
}

}  // namespace trireme::tune
