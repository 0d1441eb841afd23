#include "bench/train_perf/floor.h"

#include <algorithm>

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <trireme/base/partition.h>
#include <trireme/kernels/matmul.h>
#include <trireme/platform/clock.h>

namespace trireme::bench {

namespace {

constexpr std::int64_t kPeakSize = 1536;

// y = x W^T; dx = dy W; dW = dy^T x.
void add_linear(std::vector<Product>& products, std::int64_t rows, std::int64_t in, std::int64_t out) {
  products.push_back({rows, out, in, false, true});
  products.push_back({rows, in, out, false, false});
  products.push_back({out, in, rows, true, false});
}

// Makes oneDNN compute on the calling thread alone, whatever OpenMP runtime it brought.
void one_thread_per_call() {
  static const auto set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_num_threads != nullptr) set_num_threads(1);
}

// Rows [rows.begin, rows.end) of the product, on the calling thread.
void plain_product(const Product& p, Range rows, const float* a, const float* b, float* c) {
  const std::int64_t lda = p.transpose_a ? p.m : p.k;
  const std::int64_t ldb = p.transpose_b ? p.k : p.n;
  one_thread_per_call();
  const float* first = a + (p.transpose_a ? rows.begin : rows.begin * lda);
  dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', rows.size(), p.n, p.k, 1.0f, first, lda, b, ldb,
             0.0f, c + rows.begin * p.n, p.n);
}

}  // namespace

std::vector<Product> step_products(const GptConfig& config, std::int64_t rows) {
  std::vector<Product> products;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    add_linear(products, rows, config.width, 3 * config.width);
    add_linear(products, rows, config.width, config.width);
    add_linear(products, rows, config.width, 4 * config.width);
    add_linear(products, rows, 4 * config.width, config.width);
  }
  add_linear(products, rows, config.width, config.vocabulary);
  return products;
}

Floor::Floor(std::vector<Product> products, DataType type, ThreadPool& pool)
    : products_(std::move(products)), type_(type), pool_(pool) {
  std::int64_t a = kPeakSize * kPeakSize, b = a, c = a;
  for (const Product& p : products_) {
    a = std::max(a, p.m * p.k);
    b = std::max(b, p.k * p.n);
    c = std::max(c, p.m * p.n);
  }
  a_.assign(static_cast<std::size_t>(a), 0.5f);
  b_.assign(static_cast<std::size_t>(b), 0.25f);
  c_.assign(static_cast<std::size_t>(c), 0.0f);
}

void Floor::multiply(const Product& p) {
  if (type_ == DataType::bf16) {
    kernels::Matmul call;
    call.m = p.m, call.n = p.n, call.k = p.k;
    call.a = a_.data(), call.lda = p.transpose_a ? p.m : p.k, call.transpose_a = p.transpose_a;
    call.b = b_.data(), call.ldb = p.transpose_b ? p.k : p.n, call.transpose_b = p.transpose_b;
    call.c = c_.data(), call.ldc = p.n;
    call.precision = kernels::Precision::bf16;
    kernels::matmul(pool_, call);
    return;
  }
  const auto parts = static_cast<std::size_t>(std::min<std::int64_t>(pool_.threads(), p.m));
  pool_.run(parts, [&](std::size_t part) {
    const Range rows = balanced_part(p.m, static_cast<std::int64_t>(part), static_cast<std::int64_t>(parts));
    plain_product(p, rows, a_.data(), b_.data(), c_.data());
  });
}

void Floor::run() {
  for (const Product& product : products_) multiply(product);
}

double Floor::flops() const {
  double flops = 0;
  for (const Product& product : products_) flops += product.flops();
  return flops;
}

double Floor::measure_peak_gflop_per_s() {
  const Product square{kPeakSize, kPeakSize, kPeakSize, false, false};
  std::uint64_t best_ns = UINT64_MAX;
  for (int repetition = 0; repetition < 6; ++repetition) {
    const std::uint64_t begin_ns = system_clock().now_ns();
    multiply(square);
    best_ns = std::min(best_ns, system_clock().now_ns() - begin_ns);
  }
  return square.flops() / static_cast<double>(best_ns);
}

}  // namespace trireme::bench
