// A warm training step takes nothing from the heap. operator new of this whole test
// program counts; what oneDNN takes by malloc inside its own calls is not ours.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include <trireme/parallel/training_step.h>

namespace {
std::atomic<long> allocations{0};
void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace trireme {
namespace {

TEST(Allocation, WarmStepTakesNothing) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    TrainerOptions options;
    options.tokens_per_sequence = 16;
    options.microbatch = 2;
    auto trainer = Trainer::create(make_gpt({2, 32, 2, 16, 64, true}).value(), options, Mesh(), nullptr, pool).value();
    const std::vector<std::int32_t> tokens(4 * 16, 3), targets(4 * 16, 5);
    const Batch batch{tokens.data(), targets.data(), 4, 0, 4 * 16};
    for (int warm = 0; warm < 3; ++warm) ASSERT_TRUE(trainer->step(batch, 1e-3).is_ok());
    const long before = allocations.load();
    for (int step = 0; step < 5; ++step) {
      const Result<StepReport> report = trainer->step(batch, 1e-3);
      if (!report.is_ok()) FAIL() << report.status().to_string();
    }
    EXPECT_EQ(before, allocations.load()) << threads << " threads";
  }
}

}  // namespace
}  // namespace trireme
