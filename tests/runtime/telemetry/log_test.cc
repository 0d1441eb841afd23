#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "runtime/platform/api/process.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme {
namespace {

class Log : public testing::Test {
 protected:
  void TearDown() override {
    set_log_filter("warn");
    set_log_identity(host_name() + ":-");
  }
};

TEST_F(Log, TheDefaultShowsWarningsOnly) {
  set_log_filter("");
  EXPECT_TRUE(log_enabled(LogLevel::error, "any"));
  EXPECT_TRUE(log_enabled(LogLevel::warn, "any"));
  EXPECT_FALSE(log_enabled(LogLevel::info, "any"));
}

TEST_F(Log, TopicsHaveLevelsOfTheirOwn) {
  set_log_filter("error,tune=debug,quiet=off");
  EXPECT_TRUE(log_enabled(LogLevel::debug, "tune"));
  EXPECT_FALSE(log_enabled(LogLevel::trace, "tune"));
  EXPECT_FALSE(log_enabled(LogLevel::warn, "other"));
  EXPECT_TRUE(log_enabled(LogLevel::error, "other"));
  EXPECT_FALSE(log_enabled(LogLevel::error, "quiet"));
  EXPECT_FALSE(log_enabled(LogLevel::off, "other")) << "off is a filter, not a level of lines";
}

TEST_F(Log, TuneAloneShowsChoices) {
  set_log_filter("tune");
  EXPECT_TRUE(log_enabled(LogLevel::debug, "tune"));
  EXPECT_TRUE(log_enabled(LogLevel::warn, "other"));
  EXPECT_FALSE(log_enabled(LogLevel::info, "other"));
}

TEST_F(Log, LinesHaveTimeLevelIdentityAndTopic) {
  set_log_filter("info");
  set_log_identity("node3:7");
  testing::internal::CaptureStderr();
  TRIREME_LOG_INFO("topic", "value {} of {}", 3, "x");
  TRIREME_LOG_DEBUG("topic", "not shown");
  const std::string text = testing::internal::GetCapturedStderr();
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z I node3:7 topic value 3 of x\n)");
  EXPECT_TRUE(std::regex_match(text, form)) << text;
}

TEST_F(Log, ArgumentsOfHiddenLinesAreNotEvaluated) {
  int evaluated = 0;
  TRIREME_LOG_DEBUG("topic", "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

TEST_F(Log, AMessageStaysOnOneLine) {
  testing::internal::CaptureStderr();
  log_line(LogLevel::error, "topic", "two\nlines");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("two\\nlines"), std::string::npos);
}

TEST_F(Log, ABadFilterIsReportedAndChangesNothing) {
  set_log_filter("debug");
  for (const char* bad : {"loud", "=debug", "tune=", "tune=loud", "warn,,"}) {
    testing::internal::CaptureStderr();
    set_log_filter(bad);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("log filter '" + std::string(bad) + "'"), std::string::npos);
    EXPECT_TRUE(log_enabled(LogLevel::debug, "any"));
  }
}

TEST_F(Log, LinesOfThreadsDoNotInterleave) {
  set_log_filter("info");
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      const std::string body(200, static_cast<char>('a' + thread));
      for (int i = 0; i < 50; ++i) log_line(LogLevel::info, "topic", body);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string body = line.substr(line.rfind(' ') + 1);
    EXPECT_EQ(body, std::string(200, body.empty() ? '?' : body[0])) << line;
  }
  EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace trireme
