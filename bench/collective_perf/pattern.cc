#include "bench/collective_perf/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <trireme/base/float_types.h>

namespace trireme::bench {
namespace {

constexpr std::uint64_t kPeriod = 1021;  // Prime.

bool is_signed(DataType type) {
  return is_floating_point(type) || type == DataType::i8 || type == DataType::i32 || type == DataType::i64;
}

// Integers from 0 to this are exact.
std::int64_t exact_up_to(DataType type) {
  switch (type) {
    case DataType::f8_e5m2:
      return 8;
    case DataType::f8_e4m3:
      return 16;
    case DataType::i8:
      return 127;
    case DataType::u8:
      return 255;
    case DataType::bf16:
      return 256;
    case DataType::f16:
      return 2048;
    default:
      return std::int64_t{1} << 24;
  }
}

template <typename T>
void put(std::vector<std::byte>& tile, T value) {
  const std::size_t at = tile.size();
  tile.resize(at + sizeof value);
  std::memcpy(tile.data() + at, &value, sizeof value);
}

}  // namespace

Pattern::Pattern(DataType type, ReduceOp op, int ranks)
    : type_(type), op_(op), ranks_(ranks), width_(size_of(type)), inputs_(static_cast<std::size_t>(ranks)) {
  for (std::uint64_t index = 0; index < kPeriod; ++index) {
    for (int rank = 0; rank < ranks; ++rank) append(inputs_[static_cast<std::size_t>(rank)], value(rank, index));
    append(result_, reduced(index));
  }
}

double Pattern::value(int rank, std::uint64_t index) const {
  const std::int64_t mixed = static_cast<std::int64_t>(index) * 7 + rank * 13 + static_cast<std::int64_t>(index) / 31;
  const std::int64_t most = exact_up_to(type_);
  if (type_ == DataType::boolean) return mixed % 3 == 0;
  switch (op_) {
    case ReduceOp::min:
    case ReduceOp::max:
      return static_cast<double>(mixed % 8 - (is_signed(type_) ? 4 : 0));
    case ReduceOp::product:  // At most three factors of two.
      if ((static_cast<std::int64_t>(index) + rank) % ranks_ < 3 && mixed % 2 == 0) return 2;
      return is_signed(type_) && mixed % 3 == 0 ? -1 : 1;
    case ReduceOp::average: {  // Deviations of +1 and -1 in pairs of ranks; the mean is whole.
      const std::int64_t mean =
          1 + (ranks_ < most / 2 ? static_cast<std::int64_t>(index) % std::clamp<std::int64_t>(most / ranks_ - 1, 1, 7)
                                 : 0);
      const bool paired = rank / 2 * 2 + 1 < ranks_;
      return static_cast<double>(mean + (paired ? (rank % 2 == 0 ? 1 : -1) : 0));
    }
    case ReduceOp::sum:
      break;
  }
  if (most < ranks_) {  // Only some ranks contribute to an element.
    const std::int64_t period = (ranks_ + most - 1) / most;
    return (static_cast<std::int64_t>(index) + rank) % period == 0;
  }
  const std::int64_t range = std::min<std::int64_t>(most / ranks_ + 1, 16);
  return static_cast<double>(mixed % range - (is_signed(type_) ? range / 2 : 0));
}

double Pattern::reduced(std::uint64_t index) const {
  double result = value(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double next = value(rank, index);
    switch (op_) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result = type_ == DataType::boolean ? std::max(result, next) : result + next;
        break;
      case ReduceOp::product:
        result *= next;
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
    }
  }
  return op_ == ReduceOp::average && type_ != DataType::boolean ? result / ranks_ : result;
}

void Pattern::append(Tile& tile, double value) const {
  const auto whole = static_cast<std::int64_t>(value);
  const auto real = static_cast<float>(value);
  switch (type_) {
    case DataType::f64:
      return put(tile, value);
    case DataType::f32:
      return put(tile, real);
    case DataType::f16:
      return put(tile, f32_to_f16(real));
    case DataType::bf16:
      return put(tile, f32_to_bf16(real));
    case DataType::f8_e4m3:
      return put(tile, f32_to_f8_e4m3(real));
    case DataType::f8_e5m2:
      return put(tile, f32_to_f8_e5m2(real));
    case DataType::i8:
      return put(tile, static_cast<std::int8_t>(whole));
    case DataType::u8:
      return put(tile, static_cast<std::uint8_t>(whole));
    case DataType::i32:
      return put(tile, static_cast<std::int32_t>(whole));
    case DataType::u32:
      return put(tile, static_cast<std::uint32_t>(whole));
    case DataType::i64:
      return put(tile, whole);
    case DataType::u64:
      return put(tile, static_cast<std::uint64_t>(whole));
    case DataType::boolean:
      return put(tile, static_cast<std::uint8_t>(whole));
  }
}

void Pattern::fill(std::byte* data, int rank, std::uint64_t first, std::uint64_t count) const {
  const Tile& tile = inputs_[static_cast<std::size_t>(rank)];
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t at = (first + done) % kPeriod;
    const std::uint64_t part = std::min(kPeriod - at, count - done);
    std::memcpy(data + done * width_, tile.data() + at * width_, part * width_);
    done += part;
  }
}

std::uint64_t Pattern::wrong(const Tile& tile, const std::byte* data, std::uint64_t first, std::uint64_t count) const {
  std::uint64_t wrong = 0;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t at = (first + done) % kPeriod;
    const std::uint64_t part = std::min(kPeriod - at, count - done);
    if (std::memcmp(data + done * width_, tile.data() + at * width_, part * width_) != 0) {
      for (std::uint64_t i = 0; i < part; ++i) {
        wrong += std::memcmp(data + (done + i) * width_, tile.data() + (at + i) * width_, width_) != 0;
      }
    }
    done += part;
  }
  return wrong;
}

std::uint64_t Pattern::wrong_reduced(const std::byte* data, std::uint64_t first, std::uint64_t count) const {
  return wrong(result_, data, first, count);
}

std::uint64_t Pattern::wrong_copied(const std::byte* data, int rank, std::uint64_t first, std::uint64_t count) const {
  return wrong(inputs_[static_cast<std::size_t>(rank)], data, first, count);
}

}  // namespace trireme::bench
