#include "examples/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "examples/report/plot.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

std::string folder_with(const std::string& metrics, const std::string& events) {
  const std::string folder = make_temporary_directory("report-test").value();
  EXPECT_TRUE(write_file_atomically(folder + "/metrics.jsonl", metrics).is_ok());
  EXPECT_TRUE(events.empty() || write_file_atomically(folder + "/events.jsonl", events).is_ok());
  return folder;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Report, ShowsEveryStepAndEventWithoutTheNetwork) {
  const std::string folder = folder_with(
      "{\"step\":1,\"loss\":5.5,\"grad_norm\":1,\"lr\":0.1,\"tokens\":10,\"tokens_per_second\":1000,\"step_ms\":10}\n"
      "{\"step\":2,\"loss\":4.5,\"grad_norm\":1,\"lr\":0.1,\"tokens\":20,\"tokens_per_second\":1100,\"step_ms\":10}\n",
      "{\"wall_ms\":1000,\"event\":\"start\",\"step\":0,\"attempt\":0}\n"
      "{\"wall_ms\":2000,\"event\":\"kill\",\"step\":1,\"attempt\":0,\"detail\":\"rank <3> & \\\"co\\\"\"}\n"
      "{\"wall_ms\":3000,\"event\":\"evaluation\",\"step\":2,\"attempt\":1,\"held_out_loss\":4.25}\n");
  const Result<RunRecord> record = read_run_record(folder);
  ASSERT_TRUE(record.is_ok()) << record.status().to_string();
  ASSERT_EQ(record->metrics.size(), 2u);
  EXPECT_EQ(record->metrics[1].loss, 4.5);
  const std::string html = report_to_html(*record);
  EXPECT_EQ(count_of(html, "<svg"), 2);
  EXPECT_EQ(count_of(html, "<tr><td>"), 3);
  EXPECT_NE(html.find("4.2500 nats per byte at step 2"), std::string::npos);
  EXPECT_NE(html.find("rank &lt;3&gt; &amp; &quot;co&quot;"), std::string::npos);
  EXPECT_EQ(html.find("rank <3>"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "the page must not load anything";
  EXPECT_TRUE(remove_tree(folder).is_ok());
}

TEST(Report, LeavesOutALineThatWasCutOffAndNamesABadOne) {
  const std::string good = "{\"step\":1,\"loss\":5.5}\n";
  const std::string cut = folder_with(good + "{\"step\":2,\"lo", "");
  const Result<RunRecord> record = read_run_record(cut);
  ASSERT_TRUE(record.is_ok()) << record.status().to_string();
  EXPECT_EQ(record->metrics.size(), 1u);
  const std::string bad = folder_with(good + "{\"step\":2,\"lo\n", "");
  const Result<RunRecord> refused = read_run_record(bad);
  ASSERT_FALSE(refused.is_ok());
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.status().message().find("metrics.jsonl:2"), std::string::npos) << refused.status().message();
  EXPECT_EQ(read_run_record(bad + "/none").status().code(), StatusCode::not_found);
  EXPECT_TRUE(remove_tree(cut).is_ok());
  EXPECT_TRUE(remove_tree(bad).is_ok());
}

TEST(Plot, TicksAreRoundAndInside) {
  for (double low : {-3.7, 0.0, 1.2345, 1000.0}) {
    for (double span : {1e-6, 0.37, 1.0, 99.0, 12345.0}) {
      const std::vector<double> ticks = axis_ticks(low, low + span, 6);
      ASSERT_FALSE(ticks.empty());
      EXPECT_LE(ticks.size(), 7u);
      for (double tick : ticks) {
        EXPECT_GE(tick, low - span * 1e-6);
        EXPECT_LE(tick, low + span * (1 + 1e-6));
      }
    }
  }
}

TEST(Plot, DrawsOnlyWhatIsFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Plot plot{"t", "x",  "y", {{"s", "train", {{1, 2}, {2, infinity}, {3, std::nan("")}, {4, 5}}, false}},
                  {},  false};
  const std::string svg = plot_to_svg(plot);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const Plot empty{"t", "x", "y", {{"s", "train", {{1, infinity}}, false}}, {}, false};
  EXPECT_NE(plot_to_svg(empty).find("nothing to show"), std::string::npos);
}

}  // namespace
}  // namespace trireme
