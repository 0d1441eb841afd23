#include "collectives/execute/arithmetic.h"

#include <algorithm>
#include <cstring>

#include "runtime/memory/api/streaming_copy.h"

namespace trireme {
namespace {
constexpr std::size_t kBlock = 1024;  // Elements; three blocks of f32 fit the L1 cache.
}

bool is_wide_reduction(DataType type, ReduceOp op) {
  return is_low_precision(type) && (op == ReduceOp::sum || op == ReduceOp::product || op == ReduceOp::average);
}

Arithmetic::Arithmetic(DataType type, ReduceOp op, bool wide, int ranks)
    : type_(type),
      wide_(wide),
      average_(op == ReduceOp::average),
      ranks_(ranks),
      element_bytes_(size_of(type)),
      accumulator_bytes_(wide ? sizeof(float) : size_of(type)),
      reduce_elements_(kernels::reduce_function(type, op)),
      reduce_floats_(kernels::reduce_function(DataType::f32, op)) {}

void Arithmetic::scale(void* data, std::size_t count, DataType type) const {
  if (average_) kernels::scale_average(data, count, type, ranks_);
}

void Arithmetic::convert(Target target, Operand source, std::size_t count, bool finish) const {
  if (!wide_ || target.accumulator == source.accumulator) {
    if (target.data != source.data) std::memcpy(target.data, source.data, count * bytes_of(target.accumulator));
    if (finish) scale(target.data, count, target.accumulator && wide_ ? DataType::f32 : type_);
    return;
  }
  if (target.accumulator) {
    kernels::widen(reinterpret_cast<float*>(target.data), source.data, count, type_);
    return;
  }
  float values[kBlock];
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t block = std::min(kBlock, count - done);
    std::memcpy(values, source.data + done * sizeof(float), block * sizeof(float));
    store_wide({target.data + done * element_bytes_, false}, values, block, finish);
  }
}

void Arithmetic::combine(Target target, Operand left, Operand right, std::size_t count, bool finish) const {
  if (custom_ != nullptr) return custom_->combine(target.data, left.data, right.data, count);
  if (wide_) return combine_wide(target, left, right, count, finish);
  reduce_elements_(target.data, left.data, right.data, count);
  if (finish) scale(target.data, count, type_);
}

// One block of the reduction, in cache: in `block`, unless there is nothing to compute.
const std::byte* Arithmetic::combine_block(std::byte* block, float* wide, std::span<const std::byte* const> sources,
                                           std::size_t first, std::size_t count, bool finish) const {
  const std::size_t begin = first * element_bytes_;
  if (sources.size() == 1 && !finish) return sources[0] + begin;
  const bool in_floats = wide_ && sources.size() > 1;
  const Target sum{in_floats ? reinterpret_cast<std::byte*>(wide) : block, in_floats};
  if (sources.size() == 1) {
    convert(sum, {sources[0] + begin, false}, count, finish);
    return block;
  }
  combine(sum, {sources[0] + begin, false}, {sources[1] + begin, false}, count,
          finish && !in_floats && sources.size() == 2);
  for (std::size_t i = 2; i < sources.size(); ++i) {
    combine(sum, {sum.data, in_floats}, {sources[i] + begin, false}, count,
            finish && !in_floats && i + 1 == sources.size());
  }
  if (in_floats) store_wide({block, false}, wide, count, finish);
  return block;
}

void Arithmetic::combine_all(std::span<const Destination> targets, std::span<const std::byte* const> sources,
                             std::size_t count, bool finish) const {
  alignas(64) std::byte block[kBlock * sizeof(double)];
  alignas(64) float wide[kBlock];
  const std::size_t elements = std::max<std::size_t>(1, sizeof block / 2 / std::max(element_bytes_, sizeof(float)));
  bool past = false;
  for (std::size_t first = 0; first < count; first += elements) {
    const std::size_t part = std::min(elements, count - first);
    const std::byte* result = combine_block(block, wide, sources, first, part, finish);
    const bool whole_next = first + 2 * elements <= count;
    std::size_t nth = 0;
    for (const Destination& target : targets) {
      std::byte* to = target.data + first * element_bytes_;
      // While one block goes out, the next one's operands come in.
      const std::byte* ahead =
          whole_next && nth < sources.size() ? sources[nth] + (first + elements) * element_bytes_ : nullptr;
      ++nth;
      if (to == result) continue;
      if (target.past_caches) {
        stream_copy_unfenced(to, result, part * element_bytes_, ahead);
        past = true;
      } else {
        std::memcpy(to, result, part * element_bytes_);
      }
    }
  }
  if (past) streaming_fence();
}

void Arithmetic::store_wide(Target target, float* values, std::size_t count, bool finish) const {
  if (finish) scale(values, count, DataType::f32);
  kernels::narrow(target.data, values, count, type_);
}

void Arithmetic::combine_wide(Target target, Operand left, Operand right, std::size_t count, bool finish) const {
  float widened_left[kBlock];
  float widened_right[kBlock];
  float result[kBlock];
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t block = std::min(kBlock, count - done);
    const auto floats = [&](Operand operand, float* room) -> const float* {
      const std::byte* at = operand.data + done * bytes_of(operand.accumulator);
      if (operand.accumulator) return reinterpret_cast<const float*>(at);
      kernels::widen(room, at, block, type_);
      return room;
    };
    const float* a = floats(left, widened_left);
    const float* b = floats(right, widened_right);
    if (target.accumulator) {
      reduce_floats_(target.data + done * sizeof(float), a, b, block);
    } else {
      reduce_floats_(result, a, b, block);
      store_wide({target.data + done * element_bytes_, false}, result, block, finish);
    }
  }
}

}  // namespace trireme
