// On a terminal: what is typed for the shell stays, colours, progress lines.
#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {
namespace {

class Terminal : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    master_ = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!master_.valid() || ::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0) {
      GTEST_SKIP() << "needs pseudo-terminals (/dev/ptmx)";
    }
    std::array<char, 128> name{};
    ASSERT_EQ(::ptsname_r(master_.get(), name.data(), name.size()), 0);
    slave_ = UniqueFd(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(slave_.valid());
    termios settings{};
    ::tcgetattr(slave_.get(), &settings);
    settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    ::tcsetattr(slave_.get(), TCSANOW, &settings);
  }

  // Creates the file `gate` once the terminal has shown `text`.
  struct Step {
    std::string text;
    std::string gate;
  };
  // Runs trireme with the terminal as all its streams, and returns what the terminal showed.
  std::string show(const std::vector<std::string>& arguments, int expected_code, std::vector<Step> steps = {}) {
    SpawnOptions options;
    options.program = TRIREME_BINARY_DIR "/bin/trireme";
    options.arguments = arguments;
    options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
    options.stdin_fd = options.stdout_fd = options.stderr_fd = slave_.get();
    Result<ChildProcess> process = ChildProcess::spawn(options);
    EXPECT_TRUE(process.is_ok()) << process.status().to_string();
    std::string shown;
    while (!process->poll()->ended) {
      shown += take_shown(20);
      if (steps.empty() || shown.find(steps[0].text) == std::string::npos) continue;
      EXPECT_TRUE(write_file_atomically(file(steps[0].gate), "open").is_ok());
      steps.erase(steps.begin());
    }
    shown += take_shown(0);
    EXPECT_EQ(process->wait(Deadline::after_ms(60'000))->shell_code(), expected_code) << shown;
    return shown;
  }

  std::string take_shown(int wait_ms) {
    std::string shown;
    pollfd entry{master_.get(), POLLIN, 0};
    while (::poll(&entry, 1, shown.empty() ? wait_ms : 0) > 0) {
      char bytes[4096];
      const ssize_t got = ::read(master_.get(), bytes, sizeof(bytes));
      if (got <= 0) break;
      shown.append(bytes, static_cast<std::size_t>(got));
    }
    return shown;
  }

  void type(const std::string& text) {
    ASSERT_EQ(::write(master_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  UniqueFd master_;
  UniqueFd slave_;
};

TEST_F(Terminal, WhatIsTypedForTheShellIsNotEaten) {
  type("the shell's next line\n");
  const std::string shown = show(command({"-n", "2"}, {"input"}), 0);
  EXPECT_NE(shown.find("0 "), std::string::npos);
  char line[64] = {};
  ASSERT_EQ(::fcntl(slave_.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_GT(::read(slave_.get(), line, sizeof(line)), 0);
  EXPECT_STREQ(line, "the shell's next line\n");
}

TEST_F(Terminal, ARankReadsItWhenAsked) {
  type("hello rank\n\x04");
  const std::string shown = show({"run", "--oversubscribe", "-n", "2", "--stdin", "1", "--", "cat"}, 0);
  EXPECT_NE(shown.find(":1\x1b[0m hello rank\n"), std::string::npos) << shown;
}

TEST_F(Terminal, ProgressOfRankZeroStaysBelowTheLines) {
  const auto wait_for = [&](const std::string& gate) {
    return "while [ ! -e " + file(gate) + " ]; do sleep 0.01; done; ";
  };
  const std::string script = "if [ $TRIREME_RANK = 0 ]; then printf '10%%\\r'; " + wait_for("shown") +
                             "printf '20%%\\r'; " + wait_for("stepped") + "printf 'done\\n'; else " +
                             wait_for("shown") + "echo step; fi";
  const std::string tag = "\x1b[36m" + host_name() + ":0\x1b[0m ";
  const std::string other = "\x1b[32m" + host_name() + ":1\x1b[0m ";
  const std::string shown = show({"run", "--oversubscribe", "-n", "2", "--", "sh", "-c", script}, 0,
                                 {{tag + "10%", "shown"}, {"step\n", "seen"}, {tag + "20%", "stepped"}});
  EXPECT_EQ(shown.rfind(tag + "10%", 0), 0U) << shown;
  EXPECT_NE(shown.find("\r\x1b[K" + other + "step\n" + tag), std::string::npos) << shown;
  const std::string end = "\r\x1b[K" + tag + "done\n";
  ASSERT_GE(shown.size(), end.size());
  EXPECT_EQ(shown.substr(shown.size() - end.size()), end) << "no progress line is left: " << shown;
}

}  // namespace
}  // namespace trireme::testing
