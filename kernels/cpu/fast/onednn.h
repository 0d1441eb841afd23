// The only file (with onednn.cc) that knows oneDNN.
//
// oneDNN as distributions build it runs its own OpenMP team inside every call. Our pool
// already has a thread per core, so each call here tells the OpenMP runtime, for the
// calling thread and for the time of the call, to use one thread.
// Thread safety: safe.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::kernels::onednn {

// "oneDNN 2.6.3"
std::string version();

// C[m, n] = alpha op(A) op(B) + beta C, row-major, on the calling thread.
void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
           const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);

}  // namespace trireme::kernels::onednn
