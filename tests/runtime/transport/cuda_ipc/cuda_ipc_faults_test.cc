// GPUs that refuse or fail, over the stand-in: data goes another way, or the error says
// what failed and where; nothing waits for ever.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/contract/support.h"
#include "tests/runtime/transport/cuda_ipc/gpu_memory.h"
#include "tests/runtime/transport/cuda_ipc/over_shm.h"

namespace trireme::test {
namespace {

class Fault {
 public:
  explicit Fault(const char* name) { setenv("TRIREME_STAND_IN_FAULTS", name, 1); }
  ~Fault() { unsetenv("TRIREME_STAND_IN_FAULTS"); }
};

TEST(CudaIpcFaults, MemoryThatCannotBeSharedLeavesTheTransportOut) {
  const Fault fault("no_handles");
  const std::string reason = why_not_here(cuda_ipc_over_shm());
  EXPECT_NE(reason.find("cannot be shared between processes"), std::string::npos) << reason;
  EXPECT_NE(reason.find("CUDA_ERROR_NOT_SUPPORTED"), std::string::npos) << reason;
}

TEST(CudaIpcFaults, AFailedCopyIsAnErrorThoughTheDriverCallsNobodyBack) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), 16 * 1024);
  auto out = ranks.open(0, 1, 2);
  auto in = ranks.open(1, 0, 2);
  GpuMemory source(100'000);
  GpuMemory target(100'000);
  std::byte greeting{};
  ASSERT_TRUE(send_all(ranks.rank(1).doorbell(), *in, std::span(&greeting, 1)).is_ok());
  ASSERT_TRUE(receive_all(ranks.rank(0).doorbell(), *out, std::span(&greeting, 1)).is_ok());
  ASSERT_TRUE(
      wait_until(ranks.rank(0).doorbell(), *out, [&] { return out->send_in_place(source.span()) > 0; }).is_ok());
  const Fault fault("copies_fail");
  const Status status = receive_all(ranks.rank(1).doorbell(), *in, target.span());
  EXPECT_EQ(status.code(), StatusCode::io_error) << status.to_string();
  EXPECT_NE(status.message().find("a copy by GPU 0000:1b:00.0 failed"), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("rank 0"), std::string::npos) << status.to_string();
}

TEST(CudaIpcFaults, ACopyThatDoesNotEndKeepsNobodyInTheDestructor) {
  LocalFabrics ranks(2, cuda_ipc_over_shm(), 16 * 1024);
  auto out = ranks.open(0, 1, 3);
  GpuMemory source(100'000);
  {
    const Fault fault("copies_hang");
    EXPECT_EQ(out->send_some(source.span()), 0u);
    EXPECT_EQ(out->send_some(source.span()), 0u);
    out.reset();  // Gives up after its deadline.
  }
  EXPECT_TRUE(ranks.open(0, 1, 4)->status().is_ok());
}

}  // namespace
}  // namespace trireme::test
