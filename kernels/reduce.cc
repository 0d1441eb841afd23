#include <trireme/kernels/reduce.h>

#include <trireme/base/check.h>

#include "kernels/cpu/kernel_set.h"

namespace trireme::kernels {
namespace {

static_assert(sizeof(ReduceTable::row) / sizeof(ReduceRow) == kDataTypeCount);
static_assert(sizeof(ReduceRow::reduce) / sizeof(ReduceRow::Reduce) == kReduceOpCount);

const ReduceRow& row_of(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  TRIREME_CHECK(index < kDataTypeCount, "the data type is one of the table");
  return active_kernels().reduce()->row[index];
}

const ReduceRow& wide_row_of(DataType type) {
  const ReduceRow& row = row_of(type);
  TRIREME_CHECK(row.widen != nullptr, "wide forms exist for f32 and the low-precision types only");
  return row;
}

}  // namespace

ReduceFunction reduce_function(DataType type, ReduceOp op) {
  const auto index = static_cast<std::size_t>(op);
  TRIREME_CHECK(index < kReduceOpCount, "the operation is one of the table");
  return row_of(type).reduce[index];
}

void reduce(void* out, const void* a, const void* b, std::size_t count, DataType type, ReduceOp op) {
  reduce_function(type, op)(out, a, b, count);
}

void scale_average(void* data, std::size_t count, DataType type, std::int64_t divisor) {
  TRIREME_CHECK(divisor >= 1, "an average is over at least one contribution");
  row_of(type).average(data, count, divisor);
}

void widen(float* out, const void* in, std::size_t count, DataType type) {
  wide_row_of(type).widen(out, in, count);
}

void accumulate_wide(float* accumulator, const void* in, std::size_t count, DataType type, ReduceOp op) {
  const auto index = static_cast<std::size_t>(op);
  TRIREME_CHECK(index < kReduceOpCount, "the operation is one of the table");
  wide_row_of(type).accumulate[index](accumulator, in, count);
}

void narrow(void* out, const float* in, std::size_t count, DataType type) {
  wide_row_of(type).narrow(out, in, count);
}

}  // namespace trireme::kernels
