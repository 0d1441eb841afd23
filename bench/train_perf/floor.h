// What a training step would take if it were its matrix products and nothing else: plain
// oneDNN calls of the same shapes, one call on each thread for its part of each product.
// Attention's own products are left out.
#pragma once

#include <cstdint>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/device/thread_pool.h>
#include <trireme/parallel/model.h>

namespace trireme::bench {

// C[m, n] = A[m, k] B[k, n], as a linear layer's three products use it.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// Forward, input gradient and weight gradient of every linear layer and of the head.
std::vector<Product> step_products(const GptConfig& config, std::int64_t rows);

class Floor {
 public:
  // bf16: the kernels' product with rounded operands, since plain calls differ by machine.
  Floor(std::vector<Product> products, DataType type, ThreadPool& pool);
  // Runs all products once.
  void run();
  double flops() const;
  // The rate of one large square product, in GFLOP/s: the machine's peak as oneDNN reaches it.
  double measure_peak_gflop_per_s();

 private:
  void multiply(const Product& product);
  std::vector<Product> products_;
  DataType type_;
  ThreadPool& pool_;
  std::vector<float> a_, b_, c_;
};

}  // namespace trireme::bench
