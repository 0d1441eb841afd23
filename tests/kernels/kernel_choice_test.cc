#include <gtest/gtest.h>

#include <cstdlib>

#include <trireme/kernels/kernel_choice.h>

#include "tests/kernels/kernel_test_data.h"

namespace trireme::kernels {
namespace {

// Sets TRIREME_KERNELS for one scope.
class Choice {
 public:
  explicit Choice(const char* word) { setenv("TRIREME_KERNELS", word, 1); }
  ~Choice() { unsetenv("TRIREME_KERNELS"); }
};

TEST(KernelChoice, ReadsTheEnvironment) {
  {
    const Choice word("reference");
    ASSERT_TRUE(kernel_choice().is_ok());
    EXPECT_EQ(*kernel_choice(), KernelChoice::reference);
  }
  {
    const Choice word("fast");
    EXPECT_EQ(*kernel_choice(), KernelChoice::fast);
  }
  EXPECT_TRUE(kernel_choice().is_ok());
}

TEST(KernelChoice, NamesWhatItAccepts) {
  const Choice word("quick");
  const Status status = kernel_choice().status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  for (const char* part : {"TRIREME_KERNELS", "quick", "fast", "reference"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(KernelChoice, DescribesTheSetInUse) {
  const std::string text = describe_kernels();
  EXPECT_TRUE(text.starts_with("fast (") || text == "reference") << text;
  EXPECT_NE(fast_kernels().describe().find("oneDNN"), std::string::npos);
}

}  // namespace
}  // namespace trireme::kernels
