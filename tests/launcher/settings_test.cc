// The settings' table against the list of environment variables, and near matches.
#include <gtest/gtest.h>

#include <algorithm>

#include <trireme/platform/environment.h>

#include "launcher/cli/near_matches.h"
#include "launcher/cli/run_options.h"

namespace trireme {
namespace {

TEST(Settings, EveryOneHasItsVariableOnTheList) {
  for (const Setting& setting : run_settings()) {
    const std::string name = setting_variable(setting.name);
    const auto& list = environment_variables();
    const auto found = std::find_if(list.begin(), list.end(), [&](const auto& v) { return v.name == name; });
    ASSERT_NE(found, list.end()) << name;
    EXPECT_EQ(found->default_value, setting.default_text) << name;
  }
}

TEST(Settings, DefaultsParseToTheDefaultOptions) {
  const SettingValues flags = {{"ranks", {{"1", "test"}}}};
  const ResolvedRun defaults = resolve_run(flags, {}, {}).value();
  SettingValues spelled = flags;
  for (const Setting& setting : run_settings()) {
    if (!setting.default_text.empty())
      spelled[std::string(setting.name)] = {{std::string(setting.default_text), "test"}};
  }
  const RunOptions same = resolve_run(spelled, {}, {}).value().options;
  EXPECT_EQ(same.grace_ms, defaults.options.grace_ms);
  EXPECT_EQ(same.max_restarts, defaults.options.max_restarts);
  EXPECT_EQ(same.timeout_ms, defaults.options.timeout_ms);
  EXPECT_EQ(same.tag_output, defaults.options.tag_output);
  EXPECT_EQ(same.oversubscribe, defaults.options.oversubscribe);
  EXPECT_EQ(same.stdin_choice, defaults.options.stdin_choice);
  EXPECT_EQ(same.verbose, defaults.options.verbose);
}

TEST(Settings, SecondsAreExact) {
  const auto grace = [](const std::string& text) {
    return resolve_run({{"ranks", {{"1", "t"}}}, {"grace", {{text, "t"}}}}, {}, {});
  };
  EXPECT_EQ(grace("0").value().options.grace_ms, 0U);
  EXPECT_EQ(grace("0.25").value().options.grace_ms, 250U);
  EXPECT_EQ(grace("3600").value().options.grace_ms, 3'600'000U);
  for (const char* bad : {"-1", "nan", "inf", "1e300", "5s", " 5", ""}) EXPECT_FALSE(grace(bad).is_ok()) << bad;
}

TEST(NearMatches, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("run", "run"), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("rnu", "run"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace trireme
