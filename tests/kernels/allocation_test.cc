// A warm call of any kernel allocates nothing through operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/kernels/kernel_test_data.h"

namespace {
std::atomic<long> allocations{0};

// Out of line, so that the compiler does not pair malloc with the other delete.
[[gnu::noinline]] void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

[[gnu::noinline]] void release(void* memory) {
  std::free(memory);
}
}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}

namespace trireme::kernels {
namespace {

using testing::random_normal;

TEST(Allocation, WarmCallsAllocateNothing) {
  const std::int64_t rows = 96, dim = 64, vocabulary = 80;
  ThreadPool pool(2);
  const auto x = random_normal(rows * dim, 1), w = random_normal(3 * dim * dim, 2), bias = random_normal(3 * dim, 3);
  const auto table = random_normal(vocabulary * dim, 4);
  const auto tokens = testing::random_tokens(rows, vocabulary, 5);
  std::vector<float> qkv(static_cast<std::size_t>(rows * dim * 3)), dqkv(qkv.size()), y(x.size()), dx(x.size()),
      dw(w.size()), db(bias.size()), mean(static_cast<std::size_t>(rows)), rstd(mean),
      total(static_cast<std::size_t>(rows) * 4), dtable(table.size()), m(x.size()), v(x.size());
  std::vector<double> scratch(head_scratch_bytes({rows, dim, vocabulary}) / sizeof(double) + 1);
  const auto step = [&](Precision precision) {
    embedding_forward(pool, y.data(), table.data(), nullptr, tokens.data(), {rows, dim, vocabulary, rows, 0});
    layer_norm_forward(pool, y.data(), mean.data(), rstd.data(), x.data(), bias.data(), bias.data(), rows, dim);
    linear_forward(pool, qkv.data(), y.data(), w.data(), bias.data(), {rows, dim, 3 * dim}, precision);
    const AttentionShape shape{2, rows / 2, 2, dim / 2, 3 * dim, dim};
    attention_forward(pool, y.data(), total.data(), qkv.data(), qkv.data() + dim, qkv.data() + 2 * dim, shape);
    gelu_forward(pool, dx.data(), y.data(), rows * dim);
    HeadCrossEntropy head{.shape = {rows, dim, vocabulary},
                          .h = y.data(),
                          .w = table.data(),
                          .targets = tokens.data(),
                          .dh = dx.data(),
                          .dw = dtable.data(),
                          .precision = precision,
                          .scratch = scratch.data()};
    head_cross_entropy(pool, head);
    attention_backward_input(pool, dqkv.data(), dqkv.data() + dim, dqkv.data() + 2 * dim, dx.data(), y.data(),
                             total.data(), qkv.data(), qkv.data() + dim, qkv.data() + 2 * dim, shape);
    linear_backward_input(pool, dx.data(), dqkv.data(), w.data(), {rows, dim, 3 * dim}, precision);
    linear_backward_weight(pool, dw.data(), db.data(), dqkv.data(), x.data(), {rows, dim, 3 * dim}, precision);
    layer_norm_backward_weight(pool, db.data(), db.data() + dim, dx.data(), x.data(), mean.data(), rstd.data(), rows,
                               dim);
    embedding_backward_weight(pool, dtable.data(), nullptr, dx.data(), tokens.data(), {rows, dim, vocabulary, rows, 0});
    adamw_step(pool, y.data(), m.data(), v.data(), dx.data(), rows * dim, {.learning_rate = 1e-3f});
    return sum_of_squares(pool, dx.data(), rows * dim);
  };
  step(Precision::f32);
  step(Precision::bf16);
  const long before = allocations.load();
  step(Precision::f32);
  step(Precision::bf16);
  EXPECT_EQ(allocations.load() - before, 0);
}

}  // namespace
}  // namespace trireme::kernels
