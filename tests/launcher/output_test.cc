// Output: whole tagged lines, files per rank, bytes untouched where that was asked for.
#include <csignal>

#include <map>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

using Output = LaunchTest;

constexpr int kRanks = 8;
constexpr int kLines = 10'000;

std::string expected_line(int i, int rank) {
  return "line " + std::to_string(i) + " of rank " + std::to_string(rank) + " " +
         std::string(static_cast<std::size_t>(i % 97), 'x');
}

// Every line of `text` is one whole line of one rank, in that rank's order.
void expect_whole_lines(const std::string& text) {
  std::map<int, int> next;
  for (const std::string& line : lines_of(text)) {
    const std::string tag = host_name() + ":";
    ASSERT_EQ(line.rfind(tag, 0), 0U) << line;
    const int rank = std::stoi(line.substr(tag.size()));
    const std::string rest = line.substr(line.find(' ') + 1);
    if (rest.rfind("error", 0) == 0) continue;
    ASSERT_EQ(rest, expected_line(next[rank], rank));
    ++next[rank];
  }
  ASSERT_EQ(next.size(), static_cast<std::size_t>(kRanks));
  for (const auto& [rank, lines] : next) EXPECT_EQ(lines, kLines) << "rank " << rank;
}

TEST_F(Output, LinesOfManyRanksStayWhole) {
  const RunResult result =
      run({"-n", std::to_string(kRanks), "--output-dir", file("logs")}, {"lines", std::to_string(kLines)});
  EXPECT_EQ(result.code, 0);
  expect_whole_lines(result.out);
  expect_whole_lines(read_file(file("logs/merged.log")).value());
  const std::vector<std::string> own = lines_of(read_file(file("logs/rank-5.out")).value());
  ASSERT_EQ(own.size(), static_cast<std::size_t>(kLines));
  EXPECT_EQ(own.back(), expected_line(kLines - 1, 5));
  EXPECT_EQ(lines_of(read_file(file("logs/rank-5.err")).value()).size(), static_cast<std::size_t>(kLines / 10));
}

TEST_F(Output, APartialLineWaitsForItsRest) {
  const RunResult result = run({"-n", "1"}, {"pieces", file("gate"), "AB", "CD\nlast"});
  EXPECT_EQ(result.out, host_name() + ":0 ABCD\n" + host_name() + ":0 last\n");
}

TEST_F(Output, ALineOfAMegabyteStaysWhole) {
  const RunResult result = run({"-n", "2"}, {"long", "1000000"});
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 2U);
  for (const std::string& line : lines) EXPECT_EQ(line.size(), host_name().size() + 3 + 1'000'000);
}

TEST_F(Output, WithoutTagsBytesPassThrough) {
  const RunResult result = run({"-n", "1", "--no-tag"}, {"pieces", file("gate"), "a\rb", "\x01\xff no newline"});
  EXPECT_EQ(result.out, "a\rb\x01\xff no newline");
}

TEST_F(Output, CarriageReturnsReachFilesUntouched) {
  const RunResult result =
      run({"-n", "1", "--output-dir", file("logs")}, {"pieces", file("gate"), "10%\r", "20%\r", "done\n"});
  EXPECT_EQ(result.out, host_name() + ":0 10%\r20%\rdone\n");
  EXPECT_EQ(read_file(file("logs/rank-0.out")).value(), "10%\r20%\rdone\n");
}

TEST_F(Output, TheReportShowsTheLastLinesOfTheCulprit) {
  const RunResult result = trireme({"run", "--oversubscribe", "-n", "1", "--", "sh", "-c",
                                    "i=0; while [ $i -lt 30 ]; do echo number $i; i=$((i+1)); done; exit 4"});
  EXPECT_EQ(result.code, 4);
  EXPECT_NE(result.err.find("| number 29\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("| number 10\n"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("| number 9\n"), std::string::npos) << result.err;
}

// Nobody reads any more, as under "| head": the job ends instead of writing into the void.
TEST_F(Output, AClosedReaderEndsTheJob) {
  SpawnOptions options;
  options.program = "sh";
  options.arguments = {"-c",
                       "(" TRIREME_BINARY_DIR
                       "/bin/trireme run --oversubscribe -n 1 --grace 0.2 -- sh -c 'while :; do echo more; done'; echo "
                       "code $? > " +
                           file("code") + ") | head -n 1"};
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
  Result<ChildProcess> shell = ChildProcess::spawn(options);
  ASSERT_TRUE(shell.is_ok());
  ASSERT_TRUE(shell->wait(Deadline::after_ms(60'000)).is_ok());
  EXPECT_EQ(wait_for_lines("code", 1), std::vector<std::string>{"code " + std::to_string(128 + SIGTERM)});
}

}  // namespace
}  // namespace trireme::testing
