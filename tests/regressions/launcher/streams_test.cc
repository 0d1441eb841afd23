// Standard streams that take nothing, and files of results that nobody can write.
#include "tests/regressions/regression_test.h"

namespace trireme::testing {
namespace {

class Streams : public RegressionTest {
 protected:
  // The exit code of `script`, in which $trireme_bin is the folder of our programs.
  RunResult bin(const std::string& script) {
    return shell("bin='" TRIREME_BINARY_DIR "/bin'; cd '" + folder_ + "'; " + script);
  }
};

// Exit codes are the same whether or not somebody still takes the words; nothing aborts.
TEST_F(Streams, AnErrorThatNobodyReadsIsNoAbort) {
  EXPECT_EQ(bin("$trireme -n 2 -- false 2>/dev/full").code, 1);
  EXPECT_EQ(bin("$trireme -n 0 -- true 2>/dev/full").code, 2);
  EXPECT_EQ(bin("$bin/trireme nonsense 2>/dev/full").code, 2);
  EXPECT_EQ(bin("$bin/trireme-gpt --data nowhere 2>/dev/full").code, 2);
  EXPECT_EQ(bin("$bin/trireme checkpoint list nowhere 2>/dev/full").code, 2);
  EXPECT_EQ(bin("{ $trireme -n 2 -- sh -c 'exit 3' 2>&1; echo $? > code; } | true; exit $(cat code)").code, 3);
}

TEST_F(Streams, OutputThatWasAskedForAndIsLostIsAnError) {
  for (const char* command :
       {"version", "help", "environment", "topo --json", "run --help", "run --oversubscribe -n 2 --json - -- true"}) {
    const RunResult result = bin(std::string("$bin/trireme ") + command + " >/dev/full");
    EXPECT_EQ(result.code, 1) << command;
    EXPECT_NE(result.err.find("standard output"), std::string::npos) << command << ": " << result.err;
  }
}

// Said before the job, not after it.
TEST_F(Streams, ARecordThatCannotBeWrittenIsRefusedBeforeTheStart) {
  for (const char* where : {"nowhere/record.json", "."}) {
    const RunResult result = bin(std::string("$trireme -n 2 --json ") + where + " -- touch started");
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_NE(result.err.find("--json: write '"), std::string::npos) << result.err;
    EXPECT_EQ(bin("test -e started").code, 1);
  }
}

// Found by a newcomer: a job whose output files were lost to a full disk ended with 0.
TEST_F(Streams, OutputFilesThatLackSomethingAreNoSuccess) {
  const std::string mount = unshare("--mount");
  if (mount.empty()) GTEST_SKIP() << "needs a mount namespace of its own";
  const auto on_disk = [&](const char* filling) {
    return shell("mkdir -p '" + file("disk") + "'; " + mount + " sh -c 'mount -t tmpfs -o size=64k none \"" +
                 file("disk") + "\" && dd if=/dev/zero of=\"" + file("disk/filling") + "\" bs=1k count=" + filling +
                 " 2>/dev/null; exec \"$0\" run --oversubscribe -n 2 --output-dir \"" + file("disk/out") +
                 "\" -- echo word' " TRIREME_BINARY_DIR "/bin/trireme");
  };
  const RunResult full = on_disk("64");
  EXPECT_EQ(full.code, 1) << full.err;
  EXPECT_NE(full.err.find("output files are incomplete"), std::string::npos) << full.err;
  const RunResult roomy = on_disk("1");
  EXPECT_EQ(roomy.code, 0) << roomy.err;
}

// Before the start, too, and not as the death of a process that nobody knows.
TEST_F(Streams, TooFewDescriptorsAreTheCallersToMend) {
  const RunResult result = bin("ulimit -n 64; $trireme -n 20 -- touch started");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("trireme run: this many ranks need 184 open descriptors"), std::string::npos) << result.err;
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
}

// A device that is named as a file of results stays what it is.
TEST_F(Streams, ResultsMayGoToADevice) {
  const RunResult result =
      bin("$trireme -n 2 --json /dev/stdout --no-tag -- echo word; test -c /dev/null -a -L /dev/stdout");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("word\nword\n{", 0), 0U) << result.out;
}

TEST_F(Streams, SettingsCanBeShownWithoutAProgram) {
  const RunResult result = bin("$trireme -n 3 --show-config");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("ranks          = 3"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace trireme::testing
