#include "bench/collective_perf/measure.h"

#include <algorithm>
#include <memory>

#include <trireme/collectives/group.h>

#include "bench/collective_perf/buffers.h"
#include "bench/collective_perf/limit.h"
#include "bench/collective_perf/pattern.h"
#include "bench/collective_perf/timing.h"

namespace trireme::bench {
namespace {

using plan::Collective;

constexpr std::uint64_t kLineBytes = 64;

// One buffer holds a part for each rank.
bool has_parts(Collective collective) {
  return plan::gathers(collective) || plan::scatters(collective) || collective == Collective::all_to_all;
}

double bus_factor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    default:
      return has_parts(collective) ? (n - 1) / n : 1;
  }
}

bool is_one_host(const Communicator& communicator) {
  const World& world = communicator.world();
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.peer(rank).host_identity != world.peer(0).host_identity) return false;
  }
  return true;
}

// One (size, type, operation, root): buffers, the call, the check.
class Measurement {
 public:
  Measurement(Communicator& control, Communicator& communicator, const Subject& subject, const PerfOptions& options,
              DataType type, ReduceOp op, int root, std::uint64_t bytes, const Buffers& buffers)
      : control_(control),
        c_(communicator),
        subject_(subject),
        collective_(subject.collective),
        options_(options),
        type_(type),
        op_(op),
        root_(root),
        pattern_(type, op, communicator.size()),
        input_(buffers.input.get()),
        output_(buffers.output.get()),
        device_(communicator.backend().host_memory ? nullptr : buffers.device.get()),
        limited_(options.limit && device_ == nullptr && is_one_host(communicator)) {
    const auto ranks = static_cast<std::uint64_t>(c_.size());
    const bool by_rank = has_parts(collective_);
    count_ = bytes / size_of(type) / (by_rank ? ranks : 1);
    bytes_ = count_ * size_of(type) * (by_rank ? ranks : 1);
  }

  Result<Row> run() {
    Row row;
    row.op = subject_.op;
    row.type = type_;
    row.redop = plan::reduces(collective_) ? std::string(to_string(op_)) : "none";
    row.root = subject_.rooted() ? root_ : -1;
    row.ranks = c_.size();
    row.backend = c_.backend().name;
    row.bytes = bytes_;
    row.count = count_;
    TRIREME_ASSIGN_OR_RETURN(row.out_of_place, time(false));
    row.has_in_place = subject_.has_in_place();
    if (row.has_in_place) {
      TRIREME_ASSIGN_OR_RETURN(row.in_place, time(true));
    }
    return row;
  }

 private:
  std::uint64_t own_offset() const { return static_cast<std::uint64_t>(c_.rank()) * count_ * size_of(type_); }

  // Only the root of a gather or a scatter has the larger buffer to be in place in.
  bool is_in_place(bool in_place) const {
    const bool one_sided = collective_ == Collective::gather || collective_ == Collective::scatter;
    return in_place && (!one_sided || c_.rank() == root_);
  }
  // In place everything lies in the output buffer, except for scatters, whose larger
  // buffer is the input.
  std::byte* source(bool in_place) const {
    if (!is_in_place(in_place) || plan::scatters(collective_)) return input_;
    return output_ + (plan::gathers(collective_) ? own_offset() : 0);
  }
  std::byte* target(bool in_place) const {
    return is_in_place(in_place) && plan::scatters(collective_) ? input_ + own_offset() : output_;
  }

  std::byte* call_source(bool in_place) const { return where(source(in_place)); }
  std::byte* call_target(bool in_place) const { return where(target(in_place)); }
  std::byte* where(std::byte* host) const { return device_ != nullptr ? device_->of(host) : host; }

  Status call(bool in_place) {
    const std::byte* in = call_source(in_place);
    std::byte* out = call_target(in_place);
    if (subject_.messages) return exchange_messages(in, out, options_.blocking ? 1 : options_.aggregated);
    if (!options_.blocking) return call_async(in, out);
    switch (collective_) {
      case Collective::all_reduce:
        return c_.all_reduce(in, out, count_, type_, op_);
      case Collective::reduce:
        return c_.reduce(in, out, count_, type_, op_, root_);
      case Collective::broadcast:
        return c_.broadcast(in, out, count_, type_, root_);
      case Collective::all_gather:
        return c_.all_gather(in, out, count_, type_);
      case Collective::reduce_scatter:
        return c_.reduce_scatter(in, out, count_, type_, op_);
      case Collective::gather:
        return c_.gather(in, out, count_, type_, root_);
      case Collective::scatter:
        return c_.scatter(in, out, count_, type_, root_);
      case Collective::all_to_all:
        return c_.all_to_all(in, out, count_, type_);
      case Collective::barrier:
        return c_.barrier();
    }
    return {};
  }

  Work start(const std::byte* in, std::byte* out) {
    switch (collective_) {
      case Collective::all_reduce:
        return c_.all_reduce_async(in, out, count_, type_, op_);
      case Collective::reduce:
        return c_.reduce_async(in, out, count_, type_, op_, root_);
      case Collective::broadcast:
        return c_.broadcast_async(in, out, count_, type_, root_);
      case Collective::all_gather:
        return c_.all_gather_async(in, out, count_, type_);
      case Collective::reduce_scatter:
        return c_.reduce_scatter_async(in, out, count_, type_, op_);
      case Collective::gather:
        return c_.gather_async(in, out, count_, type_, root_);
      case Collective::scatter:
        return c_.scatter_async(in, out, count_, type_, root_);
      case Collective::all_to_all:
        return c_.all_to_all_async(in, out, count_, type_);
      case Collective::barrier:
        return c_.barrier_async();
    }
    return {};
  }

  int next() const { return (c_.rank() + 1) % c_.size(); }
  int previous() const { return (c_.rank() + c_.size() - 1) % c_.size(); }

  Status exchange_messages(const std::byte* in, std::byte* out, int times) {
    Group group(c_);
    for (int i = 0; i < times; ++i) {
      TRIREME_RETURN_IF_ERROR(c_.send(in, count_, type_, next()));
      TRIREME_RETURN_IF_ERROR(c_.receive(out, count_, type_, previous()));
    }
    return group.end();
  }

  // -m operations at once; they run in order, so the buffers may be the same.
  Status call_async(const std::byte* in, std::byte* out) {
    std::vector<Work> works;
    for (int i = 0; i < options_.aggregated; ++i) works.push_back(start(in, out));
    for (Work& work : works) TRIREME_RETURN_IF_ERROR(work.wait());
    return {};
  }

  std::uint64_t output_bytes() const {
    return bytes_ / (plan::scatters(collective_) ? static_cast<std::uint64_t>(c_.size()) : 1);
  }
  std::uint64_t input_count() const {
    const bool all_parts = plan::scatters(collective_) || collective_ == Collective::all_to_all;
    return count_ * (all_parts ? static_cast<std::uint64_t>(c_.size()) : 1);
  }

  Status fill(bool in_place) {
    std::fill_n(target(in_place), output_bytes(), std::byte{0x77});
    pattern_.fill(source(in_place), c_.rank(), 0, input_count());
    return device_ != nullptr ? device_->upload(bytes_) : Status::ok();
  }

  // Of the parts of all ranks, each holding elements from `first` on of its rank's input.
  std::uint64_t wrong_parts(const std::byte* out, std::uint64_t first) const {
    std::uint64_t wrong = 0;
    for (int rank = 0; rank < c_.size(); ++rank) {
      const std::byte* part = out + static_cast<std::uint64_t>(rank) * count_ * size_of(type_);
      wrong += pattern_.wrong_copied(part, rank, first, count_);
    }
    return wrong;
  }

  std::uint64_t wrong_here(bool in_place) const {
    const std::byte* out = target(in_place);
    const std::uint64_t own = static_cast<std::uint64_t>(c_.rank()) * count_;
    if (subject_.messages) return pattern_.wrong_copied(out, previous(), 0, count_);
    switch (collective_) {
      case Collective::all_reduce:
        return pattern_.wrong_reduced(out, 0, count_);
      case Collective::reduce:
        return c_.rank() == root_ ? pattern_.wrong_reduced(out, 0, count_) : 0;
      case Collective::broadcast:
        return pattern_.wrong_copied(out, root_, 0, count_);
      case Collective::reduce_scatter:
        return pattern_.wrong_reduced(out, own, count_);
      case Collective::all_gather:
        return wrong_parts(out, 0);
      case Collective::gather:
        return c_.rank() == root_ ? wrong_parts(out, 0) : 0;
      case Collective::scatter:
        return pattern_.wrong_copied(out, root_, own, count_);
      case Collective::all_to_all:
        return wrong_parts(out, own);
      case Collective::barrier:
        return 0;
    }
    return 0;
  }

  Result<Timing> time(bool in_place) {
    TRIREME_RETURN_IF_ERROR(fill(in_place));
    TRIREME_ASSIGN_OR_RETURN(const double whole,
                             time_passes(control_, repetition(in_place), [&] { return call(in_place); }));
    const double seconds = whole / (options_.blocking ? 1 : options_.aggregated);
    Timing timing;
    timing.time_us = seconds * 1e6;
    timing.algbw_gb_s = seconds > 0 ? static_cast<double>(bytes_) * 1e-9 / seconds : 0;
    timing.busbw_gb_s = timing.algbw_gb_s * bus_factor(collective_, c_.size());
    if (options_.checks > 0) {
      TRIREME_ASSIGN_OR_RETURN(timing.wrong, check(in_place));
    }
    if (limited_) {
      TRIREME_ASSIGN_OR_RETURN(timing.limit_gb_s, limit(in_place));
    }
    return timing;
  }

  Repetition repetition(bool in_place) {
    Repetition repetition{options_.warmup, options_.iterations, {}};
    // The twins on a device stay as they are: a host does not write there between calls.
    if (options_.rewrites && device_ == nullptr) repetition.refresh = [this, in_place] { refresh(in_place); };
    return repetition;
  }

  // What a program does between two calls: it reads the result and has new inputs.
  void refresh(bool in_place) {
    const std::byte* out = target(in_place);
    std::byte sum{};
    for (std::uint64_t at = 0; at < output_bytes(); at += kLineBytes) sum ^= out[at];
    seen_ = sum;
    pattern_.fill(source(in_place), c_.rank(), 0, input_count());
  }

  // Where the work is done: on this rank's slice of all ranks' buffers if they are mapped
  // here, else on this rank's buffers, a slice for each rank.
  void find_streams(const LimitWork& work, bool in_place, std::vector<const std::byte*>& sources,
                    std::vector<std::byte*>& targets) const {
    std::byte* input = in_place && plan::reduces(collective_) ? output_ : input_;
    const bool whole = work.bytes * static_cast<std::uint64_t>(c_.size()) > bytes_;  // No slices.
    const auto place = [&](std::byte* own, int rank) -> std::byte* {
      const int slice = whole ? 0 : options_.registers ? c_.rank() : rank;
      auto* base = options_.registers ? static_cast<std::byte*>(control_.mapped(own, rank)) : own;
      return base + static_cast<std::uint64_t>(slice) * work.bytes;
    };
    // A single source is the next rank's: it is not in this processor's cache.
    for (int i = 0; i < work.sources; ++i) sources.push_back(place(input, work.sources == 1 ? next() : i));
    for (int i = 0; i < work.targets; ++i) targets.push_back(place(output_, work.targets == 1 ? c_.rank() : i));
  }

  // The busbw of the work alone: the faster of plain stores and stores past the caches.
  Result<double> limit(bool in_place) {
    const LimitWork work = limit_work(subject_, c_.size(), bytes_, in_place);
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    find_streams(work, in_place, sources, targets);
    double least = 0;
    for (const bool past_caches : {false, true}) {
      const auto pass = [&]() -> Status {
        add_streams({sources, targets, work.bytes}, past_caches);
        return {};
      };
      TRIREME_ASSIGN_OR_RETURN(const double seconds, time_passes(control_, repetition(in_place), pass));
      if (least == 0 || seconds < least) least = seconds;
    }
    return least > 0 ? static_cast<double>(bytes_) * 1e-9 / least * bus_factor(collective_, c_.size()) : 0;
  }

  Result<std::int64_t> check(bool in_place) {
    std::int64_t wrong = 0;
    for (int i = 0; i < options_.checks; ++i) {
      TRIREME_RETURN_IF_ERROR(control_.barrier());
      TRIREME_RETURN_IF_ERROR(fill(in_place));
      // Several in-place operations in a row would reduce results again.
      if (subject_.messages) {
        TRIREME_RETURN_IF_ERROR(exchange_messages(call_source(in_place), call_target(in_place), 1));
      } else if (options_.blocking || options_.aggregated == 1) {
        TRIREME_RETURN_IF_ERROR(call(in_place));
      } else {
        TRIREME_RETURN_IF_ERROR(start(call_source(in_place), call_target(in_place)).wait());
      }
      if (device_ != nullptr) TRIREME_RETURN_IF_ERROR(device_->download(bytes_));
      wrong += static_cast<std::int64_t>(wrong_here(in_place));
    }
    TRIREME_RETURN_IF_ERROR(control_.all_reduce(&wrong, &wrong, 1, DataType::i64, ReduceOp::sum));
    return wrong;
  }

  Communicator& control_;
  Communicator& c_;
  const Subject subject_;
  const Collective collective_;
  const PerfOptions& options_;
  DataType type_;
  ReduceOp op_;
  int root_;
  Pattern pattern_;
  std::byte* input_;
  std::byte* output_;
  DeviceBuffers* device_;  // Where the calls find the buffers, if not here.
  bool limited_;           // The limit is to be measured.
  volatile std::byte seen_{};
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Status measure(Communicator& control, const std::vector<Communicator*>& contenders, const Subject& subject,
               const PerfOptions& options, const MeasureCallbacks& callbacks) {
  std::vector<int> roots = options.roots;
  if (!subject.rooted()) roots = {0};
  if (roots.front() == -1) {
    roots.clear();
    for (int rank = 0; rank < control.size(); ++rank) roots.push_back(rank);
  }
  TRIREME_ASSIGN_OR_RETURN(Buffers buffers, make_buffers(control, contenders, options));
  // All contenders on one row, then the next.
  const auto measure_row = [&](DataType type, ReduceOp op, int root, std::uint64_t bytes) -> Status {
    double first_us = 0;
    for (Communicator* contender : contenders) {
      auto row = Measurement(control, *contender, subject, options, type, op, root, bytes, buffers).run();
      if (row.status().code() == StatusCode::unsupported) {
        callbacks.on_refusal(row.status());
        continue;
      }
      if (!row.is_ok()) return row.status();
      if (first_us == 0) first_us = row->out_of_place.time_us;
      if (first_us > 0) row->ratio = row->out_of_place.time_us / first_us;
      callbacks.on_row(row.value());
    }
    return {};
  };
  for (const DataType type : options.types) {
    for (const ReduceOp op : options.ops) {
      for (const int root : roots) {
        for (const std::uint64_t bytes : sizes_of(options)) {
          TRIREME_RETURN_IF_ERROR(measure_row(type, op, root, bytes));
        }
      }
    }
  }
  return {};
}

}  // namespace trireme::bench
