// What a user may get wrong: exit code 2 and a message that says what to do. And argv.
#include "runtime/platform/api/files.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

class Usage : public LaunchTest {
 protected:
  void expect_error(const std::vector<std::string>& arguments, const std::string& part,
                    const std::vector<std::string>& environment = {}) {
    const RunResult result = trireme(arguments, "", environment);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << "expected '" << part << "' in: " << result.err;
    EXPECT_EQ(result.out.find("unreachable"), std::string::npos);
  }
};

TEST_F(Usage, MistakesAreNamed) {
  expect_error({"run", "-n", "0", "--", "echo", "unreachable"}, "--ranks: expected an integer from 1");
  expect_error({"run", "-n", "many", "--", "echo", "unreachable"}, "got 'many'");
  expect_error({"run", "--", "echo", "unreachable"}, "how many ranks?");
  expect_error({"run", "-n", "2"}, "no program was given");
  expect_error({"run", "-n", "2", "--grce", "1", "--", "echo", "unreachable"}, "did you mean '--grace'?");
  expect_error({"run", "-n", "2", "--grace", "soon", "--", "echo", "unreachable"}, "--grace: expected seconds");
  expect_error({"run", "-n", "2", "--stdin", "2", "--", "echo", "unreachable"}, "--stdin 2: the ranks are 0 to 1");
  expect_error({"run", "-n", "1", "-x", "TRIREME_TEST_MISSING", "--", "echo", "unreachable"}, "no such variable");
  expect_error({"run", "-n", "1", "-x", "9=1", "--", "echo", "unreachable"}, "-x 9=1: expected NAME");
  expect_error({"run", "-n", "1", "-x", "TRIREME_RANK=1", "--", "echo", "unreachable"}, "set for each rank");
  expect_error({"run", "-n", "1", "--wdir", file("none"), "--", "echo", "unreachable"}, "no such folder");
  expect_error({"run", "-n", "1", "--output-dir", "/proc/none", "--", "echo", "unreachable"}, "cannot be written");
  expect_error({"run", "-n", "1", "--config", file("none.toml"), "--", "echo", "unreachable"}, "none.toml");
  expect_error({"rum"}, "did you mean 'run'?");
  expect_error({"shim", "0"}, "started by 'trireme run'");
}

TEST_F(Usage, AProgramThatCannotStartNamesWhereItWasLookedFor) {
  expect_error({"run", "-n", "2", "--max-restarts", "3", "--", "trireme-no-such-program"}, "PATH (");
  expect_error({"run", "-n", "2", "--max-restarts", "3", "--", "./no-such-program"}, "no-such-program");
  expect_error({"run", "-n", "2", "--", "/etc/passwd"}, "/etc/passwd");
}

TEST_F(Usage, ConfigurationFilesNameTheLine) {
  const auto config = [&](const std::string& text) {
    EXPECT_TRUE(write_file_atomically(file("run.toml"), text).is_ok());
    return std::vector<std::string>{"run", "--config", file("run.toml"), "--", "echo", "unreachable"};
  };
  expect_error(config("[run]\nranks = 2\ngrace = = 3\n"), "run.toml:3:");
  expect_error(config("[run]\nranks = 2\ngarce = 3\n"),
               "run.toml:3: there is no setting 'garce': did you mean 'grace'?");
  expect_error(config("[run]\nranks = 0\n"), "run.toml:2: expected an integer");
  expect_error(config("[walk]\nranks = 1\n"), "expected the table [run] only");
}

TEST_F(Usage, ArgumentsArriveByteForByte) {
  const std::vector<std::string> odd = {"a   b", "", "'\"$;*`\\", "--help", "-n", "--", "\xff\xfe", "x\ny", "[1,2]"};
  std::vector<std::string> probe = {"argv"};
  probe.insert(probe.end(), odd.begin(), odd.end());
  const RunResult result = run({"-n", "1", "--no-tag"}, probe);
  std::string expected;
  for (const std::string& argument : odd) {
    expected += "[";
    for (const unsigned char c : argument) {
      constexpr char kDigits[] = "0123456789abcdef";
      expected += kDigits[c >> 4];
      expected += kDigits[c & 15];
    }
    expected += "]\n";
  }
  EXPECT_EQ(result.out, expected) << result.err;
}

TEST_F(Usage, TheFirstSourceThatHasAValueWins) {
  ASSERT_TRUE(
      write_file_atomically(file("run.toml"), "[run]\nranks = 2\ngrace = 7\nexport = ['A=1', 'B=2']\n").is_ok());
  const RunResult result = trireme({"run", "--config", file("run.toml"), "--grace", "3", "--show-config", "--", "true"},
                                   "", {"TRIREME_RUN_GRACE=9", "TRIREME_RUN_TIMEOUT=8", "TRIREME_RUN_RANKS=5"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto expect_setting = [&](const std::string& name, const std::string& value, const std::string& source) {
    for (const std::string& line : lines_of(result.out)) {
      if (line.rfind(name + " ", 0) != 0) continue;
      if (line.find("= " + value + " ") != std::string::npos && line.find("# " + source) != std::string::npos) return;
    }
    ADD_FAILURE() << name << " = " << value << " # " << source << " not in\n" << result.out;
  };
  expect_setting("grace", "3", "--grace");
  expect_setting("ranks", "2", file("run.toml") + ":2");
  expect_setting("timeout", "8", "TRIREME_RUN_TIMEOUT");
  expect_setting("max-restarts", "0", "default");
  expect_setting("export", "B=2", file("run.toml") + ":4");
}

TEST_F(Usage, ManyRanksOnFewProcessorsIsSaidOnce) {
  const RunResult warned = trireme({"run", "-n", "300", "--", "true"});
  EXPECT_EQ(warned.code, 0) << warned.err;
  EXPECT_NE(warned.err.find("300 ranks share"), std::string::npos) << warned.err;
  EXPECT_EQ(lines_of(warned.err).size(), 1U);
}

TEST_F(Usage, HelpVersionAndEnvironment) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"help"},
                                                    {"--help"},
                                                    {"run", "--help"},
                                                    {"help", "run"},
                                                    {"version"},
                                                    {"environment"}}) {
    const RunResult result = trireme(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_FALSE(result.out.empty());
  }
  EXPECT_NE(trireme({"environment"}).out.find("TRIREME_RUN_MAX_RESTARTS"), std::string::npos);
  EXPECT_NE(trireme({"help", "run"}).out.find("--max-restarts"), std::string::npos);
}

}  // namespace
}  // namespace trireme::testing
