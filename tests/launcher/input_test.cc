// Standard input arrives byte for byte, where it should, and nowhere else.
#include <random>

#include <trireme/base/hash.h>

#include "runtime/platform/api/files.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

class Input : public LaunchTest {
 protected:
  // Writes `bytes` random bytes to the file "input" and returns what `input` prints for them.
  std::string make_input(std::size_t bytes) {
    std::mt19937_64 random(17);
    std::string data(bytes, '\0');
    for (char& c : data) c = static_cast<char>(random());
    EXPECT_TRUE(write_file_atomically(file("input"), data).is_ok());
    char text[64];
    std::snprintf(text, sizeof(text), "%zu %016llx", data.size(), static_cast<unsigned long long>(hash64(data)));
    return text;
  }
  std::vector<std::string> outputs(const RunResult& result) {
    std::vector<std::string> by_rank;
    for (const std::string& line : lines_of(result.out)) {
      const std::size_t tag = line.find(':');
      const std::size_t rank = std::stoul(line.substr(tag + 1));
      by_rank.resize(std::max(by_rank.size(), rank + 1));
      by_rank[rank] = line.substr(line.find(' ') + 1);
    }
    return by_rank;
  }
  const std::string nothing_ = [] {
    char text[64];
    std::snprintf(text, sizeof(text), "0 %016llx", static_cast<unsigned long long>(hash64("")));
    return std::string(text);
  }();
};

TEST_F(Input, GoesToRankZeroByDefault) {
  const std::string expected = make_input(10 << 20);
  const RunResult result = trireme(command({"-n", "2"}, {"input"}), file("input"));
  EXPECT_EQ(outputs(result), (std::vector<std::string>{expected, nothing_})) << result.err;
}

TEST_F(Input, GoesToTheRankAskedFor) {
  const std::string expected = make_input(1 << 20);
  const RunResult result = trireme(command({"-n", "2", "--stdin", "1"}, {"input"}), file("input"));
  EXPECT_EQ(outputs(result), (std::vector<std::string>{nothing_, expected})) << result.err;
}

TEST_F(Input, GoesToAll) {
  const std::string expected = make_input(3'000'001);
  const RunResult result = trireme(command({"-n", "3", "--stdin", "all"}, {"input"}), file("input"));
  EXPECT_EQ(outputs(result), (std::vector<std::string>{expected, expected, expected})) << result.err;
}

// A shell that reads its script from the stream that it shares with the job.
TEST_F(Input, WhatNoRankReadsStaysForTheShell) {
  ASSERT_TRUE(write_file_atomically(file("script"),
                                    std::string(TRIREME_BINARY_DIR) + "/bin/trireme run -n 1 -- true\necho survived\n")
                  .is_ok());
  SpawnOptions options;
  options.program = "sh";
  options.arguments = {"-c", "cat " + file("script") + " | sh > " + file("result")};
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
  Result<ChildProcess> shell = ChildProcess::spawn(options);
  ASSERT_TRUE(shell.is_ok());
  ASSERT_TRUE(shell->wait(Deadline::after_ms(60'000)).is_ok());
  EXPECT_EQ(read_file(file("result")).value(), "survived\n");
}

}  // namespace
}  // namespace trireme::testing
