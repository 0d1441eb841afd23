#include "collectives/execute/reproducible.h"

#include <algorithm>
#include <vector>

#include <trireme/kernels/reduce.h>

#include "collectives/execute/extents.h"
#include "collectives/execute/fixed_point.h"
#include "collectives/execute/scaled_sum.h"

namespace trireme {
namespace {

constexpr std::size_t kBlock = 1024;  // Elements converted at a time.

// What both halves share.
struct Sum {
  Call call;
  Extents extents;
  double factor = 1;
  int ranks = 1;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::byte> largest;  // An exponent per element of the input.

  bool is_double() const { return call.type == DataType::f64; }
  std::size_t exponent_bytes() const { return is_double() ? sizeof(std::int32_t) : 1; }
  std::uint8_t* small_exponents() { return reinterpret_cast<std::uint8_t*>(largest.data()); }
  std::int32_t* exponents() { return reinterpret_cast<std::int32_t*>(largest.data()); }

  // Calls `use(first, values, count)` with blocks of what this rank contributes, as T.
  template <class T, class Use>
  void for_blocks(Use&& use) const {
    T values[kBlock];
    const std::size_t width = size_of(call.type);
    for (std::size_t first = 0; first < extents.input; first += kBlock) {
      const std::size_t count = std::min<std::size_t>(kBlock, extents.input - first);
      const std::byte* from = input + first * width;
      if constexpr (std::is_same_v<T, double>) {
        scale_elements(values, from, count, DataType::f64, factor);
      } else {
        kernels::widen(values, from, count, call.type);
        if (factor != 1) scale_elements(values, values, count, DataType::f32, factor);
      }
      use(first, static_cast<const T*>(values), count);
    }
  }
};

class LargestExponents final : public Staging {
 public:
  explicit LargestExponents(std::shared_ptr<Sum> sum) : sum_(std::move(sum)) {
    executed.kind = CallKind::all_reduce;
    executed.type = sum_->is_double() ? DataType::i32 : DataType::u8;
    executed.op = ReduceOp::max;
    executed.count = sum_->extents.input;
  }
  void before() override {
    Sum& s = *sum_;
    s.largest.resize(s.extents.input * s.exponent_bytes());
    if (s.is_double()) {
      s.for_blocks<double>([&](std::size_t first, const double* values, std::size_t count) {
        fixed_point::exponents(s.exponents() + first, values, count);
      });
    } else {
      s.for_blocks<float>([&](std::size_t first, const float* values, std::size_t count) {
        fixed_point::exponents(s.small_exponents() + first, values, count);
      });
    }
    input = output = s.largest.data();
  }
  void after() override {}

 private:
  std::shared_ptr<Sum> sum_;
};

class FixedPointSum final : public Staging {
 public:
  explicit FixedPointSum(std::shared_ptr<Sum> sum) : sum_(std::move(sum)) {
    executed = sum_->call;
    executed.combining = Combining::named;
    executed.op = ReduceOp::sum;
    executed.type = DataType::i64;
    executed.count *= lanes();
  }
  std::size_t lanes() const { return sum_->is_double() ? 2 : 1; }

  void before() override {
    Sum& s = *sum_;
    numbers_.resize(s.extents.input * lanes());
    if (s.is_double()) {
      s.for_blocks<double>([&](std::size_t first, const double* values, std::size_t count) {
        fixed_point::encode(numbers_.data() + 2 * first, values, s.exponents() + first, count, s.ranks);
      });
    } else {
      s.for_blocks<float>([&](std::size_t first, const float* values, std::size_t count) {
        fixed_point::encode(numbers_.data() + first, values, s.small_exponents() + first, count, s.ranks);
      });
    }
    // In place where the collective can be: the result is a part of, or all of, what was given.
    input = numbers_.data();
    output = numbers_.data() + s.extents.own * lanes();
  }

  void after() override {
    Sum& s = *sum_;
    if (s.extents.uses_output) {
      s.is_double() ? finish_doubles() : finish_floats();
    }
    numbers_ = {};
    s.largest = {};
  }

 private:
  void finish_doubles() {
    Sum& s = *sum_;
    auto* out = reinterpret_cast<double*>(s.output);
    fixed_point::decode(out, numbers_.data() + 2 * s.extents.own, s.exponents() + s.extents.own, s.extents.output,
                        s.ranks);
    if (s.call.op == ReduceOp::average) kernels::scale_average(out, s.extents.output, DataType::f64, s.ranks);
  }

  void finish_floats() {
    Sum& s = *sum_;
    float values[kBlock];
    for (std::size_t first = 0; first < s.extents.output; first += kBlock) {
      const std::size_t count = std::min<std::size_t>(kBlock, s.extents.output - first);
      const std::size_t at = s.extents.own + first;
      fixed_point::decode(values, numbers_.data() + at, s.small_exponents() + at, count, s.ranks);
      if (s.call.op == ReduceOp::average) kernels::scale_average(values, count, DataType::f32, s.ranks);
      kernels::narrow(s.output + first * size_of(s.call.type), values, count, s.call.type);
    }
  }

  std::shared_ptr<Sum> sum_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace

bool is_order_dependent(const Call& call) {
  if (is_message(call.kind) || !plan::reduces(collective_of(call.kind)) || !is_floating_point(call.type)) return false;
  const bool custom = call.combining == Combining::custom || call.combining == Combining::custom_in_order;
  return !custom && (call.op == ReduceOp::sum || call.op == ReduceOp::average);
}

std::pair<std::unique_ptr<CallDetails>, std::unique_ptr<CallDetails>> stage_reproducible(
    const Call& call, const CallDetails* details, const void* input, void* output, int rank, int ranks) {
  auto sum = std::make_shared<Sum>();
  sum->call = call;
  sum->extents = extents_of(call, details, rank, ranks);
  if (details != nullptr) sum->factor = details->factor;
  sum->ranks = ranks;
  sum->input = static_cast<const std::byte*>(input);
  sum->output = static_cast<std::byte*>(output);
  auto first = std::make_unique<CallDetails>();
  first->staging = std::make_unique<LargestExponents>(sum);
  auto second = std::make_unique<CallDetails>();
  auto staging = std::make_unique<FixedPointSum>(sum);
  if (details != nullptr) second->counts = details->counts;
  for (std::int64_t& count : second->counts) count *= static_cast<std::int64_t>(staging->lanes());
  second->staging = std::move(staging);
  return {std::move(first), std::move(second)};
}

}  // namespace trireme
