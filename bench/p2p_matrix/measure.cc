#include "bench/p2p_matrix/measure.h"

#include <algorithm>

#include <trireme/platform/clock.h>

namespace trireme::bench {
namespace {

constexpr int kWarmUps = 3;

double seconds_since(std::uint64_t begin_ns) {
  return std::max(1e-9, static_cast<double>(system_clock().now_ns() - begin_ns) * 1e-9);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Measurement {
 public:
  Measurement(Communicator& communicator, const MatrixOptions& options)
      : communicator_(communicator), options_(options), out_(options.bytes), in_(options.bytes) {
    matrix_.ranks = communicator.size();
    const auto pairs = static_cast<std::size_t>(matrix_.ranks) * static_cast<std::size_t>(matrix_.ranks);
    matrix_.latency_us.resize(pairs);
    matrix_.bytes_per_second.resize(pairs);
    matrix_.transports.resize(pairs);
  }

  Result<Matrix> run() {
    const int ranks = communicator_.size();
    for (int a = 0; a < ranks; ++a) {
      for (int b = a + 1; b < ranks; ++b) {
        TRIREME_RETURN_IF_ERROR(communicator_.barrier());
        if (communicator_.rank() == a) TRIREME_RETURN_IF_ERROR(measure_pair(b, true));
        if (communicator_.rank() == b) TRIREME_RETURN_IF_ERROR(measure_pair(a, false));
      }
    }
    TRIREME_RETURN_IF_ERROR(measure_all());
    TRIREME_RETURN_IF_ERROR(measure_work());
    TRIREME_RETURN_IF_ERROR(share());
    return std::move(matrix_);
  }

 private:
  // One message there, one back.
  Status swap(int peer, bool first, std::size_t there, std::size_t back) {
    const auto send = [&](std::size_t bytes) { return communicator_.send(out_.data(), bytes, DataType::u8, peer); };
    const auto receive = [&](std::size_t bytes) {
      return communicator_.receive(in_.data(), bytes, DataType::u8, peer);
    };
    TRIREME_RETURN_IF_ERROR(first ? send(there) : receive(there));
    return first ? receive(back) : send(back);
  }

  Status measure_pair(int peer, bool first) {
    std::vector<double> pings;
    for (int i = 0; i < options_.pings + kWarmUps; ++i) {
      const std::uint64_t begin = system_clock().now_ns();
      TRIREME_RETURN_IF_ERROR(swap(peer, first, 8, 8));
      if (i >= kWarmUps) pings.push_back(seconds_since(begin) / 2);
    }
    const double latency = median(pings);
    const std::size_t own = matrix_.at(communicator_.rank(), peer);
    matrix_.latency_us[own] = latency * 1e6;
    for (const bool forth : {true, false}) {
      const bool sends = forth == first;
      std::vector<double> times;
      for (int i = 0; i < options_.iterations + kWarmUps; ++i) {
        const std::uint64_t begin = system_clock().now_ns();
        TRIREME_RETURN_IF_ERROR(swap(peer, sends, options_.bytes, 8));
        if (i >= kWarmUps) times.push_back(seconds_since(begin) - latency);
      }
      if (sends)
        matrix_.bytes_per_second[own] = static_cast<double>(options_.bytes) / std::max(1e-9, median(times) - latency);
    }
    return Status::ok();
  }

  Status measure_all() {
    const int ranks = communicator_.size();
    const int next = (communicator_.rank() + 1) % ranks;
    const int previous = (communicator_.rank() + ranks - 1) % ranks;
    std::vector<double> times;
    for (int i = 0; i < options_.iterations + kWarmUps; ++i) {
      TRIREME_RETURN_IF_ERROR(communicator_.barrier());
      const std::uint64_t begin = system_clock().now_ns();
      Work sent = communicator_.send_async(out_.data(), options_.bytes, DataType::u8, next);
      TRIREME_RETURN_IF_ERROR(communicator_.receive(in_.data(), options_.bytes, DataType::u8, previous));
      TRIREME_RETURN_IF_ERROR(sent.wait());
      if (i >= kWarmUps) times.push_back(seconds_since(begin));
    }
    double slowest = median(times);
    TRIREME_RETURN_IF_ERROR(communicator_.all_reduce(&slowest, &slowest, 1, DataType::f64, ReduceOp::max));
    matrix_.all_bytes_per_second = static_cast<double>(options_.bytes) * ranks / slowest;
    return Status::ok();
  }

  Status measure_work() {
    const std::size_t count = options_.bytes / sizeof(float);
    std::vector<float> sum(count + 1);
    const std::vector<float> part(count + 1, 1.0f);
    std::vector<double> times;
    for (int i = 0; i < options_.iterations + kWarmUps; ++i) {
      TRIREME_RETURN_IF_ERROR(communicator_.barrier());
      const std::uint64_t begin = system_clock().now_ns();
      for (std::size_t k = 0; k < count; ++k) sum[k] += part[k];
      if (i >= kWarmUps) times.push_back(seconds_since(begin));
    }
    // The sum is used, so that adding is not left out; it counts the iterations.
    if (sum[0] != static_cast<float>(options_.iterations + kWarmUps)) return data_loss("adding went wrong");
    double slowest = median(times);
    TRIREME_RETURN_IF_ERROR(communicator_.all_reduce(&slowest, &slowest, 1, DataType::f64, ReduceOp::max));
    matrix_.work_bytes_per_second = static_cast<double>(options_.bytes) / slowest;
    return Status::ok();
  }

  // Every rank has its own row.
  Status share() {
    const auto ranks = static_cast<std::size_t>(matrix_.ranks);
    for (std::vector<double>* figures : {&matrix_.latency_us, &matrix_.bytes_per_second}) {
      const std::size_t begin = matrix_.at(communicator_.rank(), 0);
      const std::vector<double> own(figures->begin() + static_cast<std::ptrdiff_t>(begin),
                                    figures->begin() + static_cast<std::ptrdiff_t>(begin + ranks));
      TRIREME_RETURN_IF_ERROR(communicator_.all_gather(own.data(), figures->data(), ranks, DataType::f64));
    }
    return Status::ok();
  }

  Communicator& communicator_;
  const MatrixOptions& options_;
  std::vector<char> out_;
  std::vector<char> in_;
  Matrix matrix_;
};

int host_of(const Topology& topology, int id) {
  while (topology.vertices[static_cast<std::size_t>(id)].parent >= 0) {
    id = topology.vertices[static_cast<std::size_t>(id)].parent;
  }
  return id;
}

Link measured(int a, int b, LinkKind kind, double bytes_per_second, double latency_us) {
  Link link;
  link.a = a;
  link.b = b;
  link.kind = kind;
  link.bytes_per_second = bytes_per_second;
  link.latency_us = latency_us;
  link.source = FigureSource::measured;
  return link;
}

}  // namespace

Result<Matrix> measure_matrix(Communicator& communicator, const MatrixOptions& options) {
  return Measurement(communicator, options).run();
}

void add_measured_links(Topology& topology, const Matrix& matrix) {
  const std::vector<int> vertices = topology.of_kind(VertexKind::rank);
  const auto vertex = [&](int rank) { return vertices[static_cast<std::size_t>(rank)]; };
  for (int from = 0; from < matrix.ranks; ++from) {
    for (int to = 0; to < matrix.ranks; ++to) {
      if (from == to) continue;
      const bool near = host_of(topology, vertex(from)) == host_of(topology, vertex(to));
      Link link = measured(vertex(from), vertex(to), near ? LinkKind::memory : LinkKind::network,
                           matrix.bytes_per_second[matrix.at(from, to)], matrix.latency_us[matrix.at(from, to)]);
      link.one_way = true;
      link.detail = matrix.transports[matrix.at(from, to)];
      topology.links.push_back(std::move(link));
    }
    const int parent = topology.vertices[static_cast<std::size_t>(vertex(from))].parent;
    topology.links.push_back(measured(vertex(from), parent, LinkKind::internal, matrix.work_bytes_per_second, 0));
  }
  const std::vector<int> nodes = topology.of_kind(VertexKind::numa_node);
  if (topology.of_kind(VertexKind::host).size() != 1 || nodes.empty()) return;
  topology.links.push_back(
      measured(host_of(topology, nodes[0]), nodes[0], LinkKind::memory, matrix.all_bytes_per_second, 0));
}

}  // namespace trireme::bench
