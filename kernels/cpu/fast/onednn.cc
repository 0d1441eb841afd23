#include "kernels/cpu/fast/onednn.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <trireme/base/check.h>

namespace trireme::kernels::onednn {
namespace {

// The OpenMP runtime that oneDNN brought into the process, found by its functions'
// names, because it may be GNU's or Intel's; absent in builds of oneDNN without OpenMP.
struct OpenMp {
  int (*get_max_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
};

const OpenMp& open_mp() {
  static const OpenMp found = [] {
    OpenMp runtime;
    runtime.get_max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    runtime.set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (runtime.get_max_threads == nullptr || runtime.set_num_threads == nullptr) return OpenMp{};
    return runtime;
  }();
  return found;
}

// The number of OpenMP threads is a property of each thread; the caller's is restored,
// because the calling thread may belong to a program that uses OpenMP itself.
class OneThread {
 public:
  OneThread() {
    const OpenMp& runtime = open_mp();
    if (runtime.set_num_threads == nullptr) return;
    before_ = runtime.get_max_threads();
    if (before_ != 1) runtime.set_num_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) open_mp().set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = 1;
};

}  // namespace

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
           const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  const OneThread guard;
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  TRIREME_CHECK(status == dnnl_success, "oneDNN refused a matrix product: sizes or leading dimensions are wrong");
}

}  // namespace trireme::kernels::onednn
