#include "collectives/execute/scaled_sum.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <trireme/kernels/reduce.h>

#include "collectives/execute/extents.h"

namespace trireme {
namespace {

template <class T>
void scale(void* out, const void* in, std::size_t count, double factor) {
  const auto* from = static_cast<const T*>(in);
  auto* to = static_cast<T*>(out);
  if constexpr (std::is_integral_v<T>) {
    const auto times = static_cast<std::uint64_t>(static_cast<std::int64_t>(factor));
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<std::uint64_t>(from[i]) * times);
  } else {
    const auto times = static_cast<T>(factor);
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i] * times;
  }
}

void scale_into_floats(float* out, const void* in, std::size_t count, DataType type, double factor) {
  kernels::widen(out, in, count, type);
  scale<float>(out, out, count, factor);
}

class ScaledSum final : public Staging {
 public:
  ScaledSum(const Call& call, double factor, const Extents& extents, const void* from, void* to)
      : type_(call.type), factor_(factor), extents_(extents), from_(from), to_(to) {
    executed = call;
    executed.combining = Combining::named;
    executed.tag = 0;
    if (is_low_precision(type_)) executed.type = DataType::f32;
  }

  void before() override {
    scaled_.resize(extents_.input * size_of(executed.type));
    input = scaled_.data();
    output = to_;
    if (!is_low_precision(type_)) return scale_elements(scaled_.data(), from_, extents_.input, type_, factor_);
    scale_into_floats(reinterpret_cast<float*>(scaled_.data()), from_, extents_.input, type_, factor_);
    if (!extents_.uses_output) return;
    result_.resize(extents_.output);
    output = result_.data();
  }

  void after() override {
    if (!result_.empty()) kernels::narrow(to_, result_.data(), result_.size(), type_);
    scaled_ = {};
    result_ = {};
  }

 private:
  const DataType type_;
  const double factor_;
  const Extents extents_;
  const void* const from_;
  void* const to_;
  std::vector<std::byte> scaled_;  // From operator new: aligned to any element.
  std::vector<float> result_;
};

}  // namespace

void scale_elements(void* out, const void* in, std::size_t count, DataType type, double factor) {
  switch (type) {
    case DataType::f64:
      return scale<double>(out, in, count, factor);
    case DataType::f32:
      return scale<float>(out, in, count, factor);
    case DataType::i8:
      return scale<std::int8_t>(out, in, count, factor);
    case DataType::u8:
      return scale<std::uint8_t>(out, in, count, factor);
    case DataType::i32:
      return scale<std::int32_t>(out, in, count, factor);
    case DataType::u32:
      return scale<std::uint32_t>(out, in, count, factor);
    case DataType::i64:
      return scale<std::int64_t>(out, in, count, factor);
    case DataType::u64:
      return scale<std::uint64_t>(out, in, count, factor);
    case DataType::boolean: {
      const auto* from = static_cast<const std::uint8_t*>(in);
      std::transform(from, from + count, static_cast<std::uint8_t*>(out),
                     [&](std::uint8_t value) { return static_cast<std::uint8_t>(value != 0 && factor != 0 ? 1 : 0); });
      return;
    }
    default: {  // Low-precision types, in blocks that stay in the cache.
      float block[1024];
      const std::size_t width = size_of(type);
      for (std::size_t done = 0; done < count; done += std::size(block)) {
        const std::size_t part = std::min(std::size(block), count - done);
        scale_into_floats(block, static_cast<const std::byte*>(in) + done * width, part, type, factor);
        kernels::narrow(static_cast<std::byte*>(out) + done * width, block, part, type);
      }
    }
  }
}

std::unique_ptr<Staging> stage_scaled_sum(const Call& call, const CallDetails& details, const void* input, void* output,
                                          int rank, int ranks) {
  return std::make_unique<ScaledSum>(call, details.factor, extents_of(call, &details, rank, ranks), input, output);
}

}  // namespace trireme
