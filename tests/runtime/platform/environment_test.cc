#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include <trireme/platform/environment.h>

namespace trireme {
namespace {

class Environment : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("TRIREME_THREADS"); }
  void TearDown() override { ::unsetenv("TRIREME_THREADS"); }
};

TEST_F(Environment, NamesAreUniqueAndExplained) {
  std::set<std::string_view> names;
  for (const EnvironmentVariable& variable : environment_variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.meaning.empty()) << variable.name;
  }
}

TEST_F(Environment, UnsetAndEmptyAreTheSame) {
  EXPECT_FALSE(environment("TRIREME_THREADS").has_value());
  ::setenv("TRIREME_THREADS", "", 1);
  EXPECT_FALSE(environment("TRIREME_THREADS").has_value());
  ::setenv("TRIREME_THREADS", "7", 1);
  EXPECT_EQ(environment("TRIREME_THREADS"), "7");
}

TEST_F(Environment, IntegersAreCheckedAgainstTheirRange) {
  EXPECT_EQ(*environment_integer("TRIREME_THREADS", 3, 1, 64), 3);
  for (const char* bad : {"0", "65", "x", "3x", "", " 3", "99999999999999999999"}) {
    ::setenv("TRIREME_THREADS", bad, 1);
    const auto result = environment_integer("TRIREME_THREADS", 3, 1, 64);
    if (*bad == '\0') {
      EXPECT_EQ(*result, 3);
      continue;
    }
    ASSERT_FALSE(result.is_ok()) << bad;
    EXPECT_EQ(result.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(result.status().message().find("TRIREME_THREADS=" + std::string(bad)), std::string::npos);
    EXPECT_NE(result.status().message().find("1 to 64"), std::string::npos);
  }
  ::setenv("TRIREME_THREADS", "64", 1);
  EXPECT_EQ(*environment_integer("TRIREME_THREADS", 3, 1, 64), 64);
}

TEST(EnvironmentDeathTest, AnUnlistedNameStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(environment("TRIREME_NO_SUCH_VARIABLE"), "does not list");
}

}  // namespace
}  // namespace trireme
