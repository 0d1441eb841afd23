#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <thread>

#include <trireme/platform/environment.h>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"

namespace trireme {
namespace {

Deadline soon() {
  return Deadline::after_ms(60'000);
}

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.program = "sh";
  options.arguments = {"-c", script};
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
  return options;
}

struct Outcome {
  std::string output;
  ExitState exit;
};

// Runs to the end with stdout in a pipe.
Outcome run(SpawnOptions options) {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  const UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  options.stdout_fd = writer.get();
  auto child = ChildProcess::spawn(options);
  EXPECT_TRUE(child.is_ok()) << child.status().to_string();
  writer.reset();
  Outcome outcome;
  char buffer[4096];
  for (ssize_t got; (got = ::read(reader.get(), buffer, sizeof(buffer))) > 0;) {
    outcome.output.append(buffer, static_cast<std::size_t>(got));
  }
  if (child.is_ok()) outcome.exit = child->wait(soon()).value();
  return outcome;
}

TEST(Process, RunsWithItsEnvironmentArgumentsAndFolder) {
  SpawnOptions options = shell("echo $A \"$1\" `pwd`; exit 3");
  options.arguments.insert(options.arguments.end(), {"zero", "one two"});
  options.environment.push_back("A=b c");
  options.working_directory = "/";
  const Outcome outcome = run(options);
  EXPECT_EQ(outcome.output, "b c one two /\n");
  EXPECT_EQ(outcome.exit.shell_code(), 3);
  EXPECT_EQ(outcome.exit.to_string(), "exit code 3");
}

TEST(Process, StandardInputIsEmptyByDefault) {
  EXPECT_EQ(run(shell("cat; echo end")).output, "end\n");
}

TEST(Process, FailuresBeforeExecAreReturnedWithTheirReason) {
  SpawnOptions options;
  options.program = "no-such-program-of-trireme";
  auto missing = ChildProcess::spawn(options);
  EXPECT_EQ(missing.status().code(), StatusCode::not_found);
  EXPECT_NE(missing.status().message().find("no-such-program-of-trireme"), std::string::npos);
  options.program = "./no-such-program-of-trireme";
  EXPECT_EQ(ChildProcess::spawn(options).status().code(), StatusCode::not_found);
  options.program = "/etc/passwd";
  EXPECT_EQ(ChildProcess::spawn(options).status().code(), StatusCode::permission_denied);
  options = shell("true");
  options.working_directory = "/no/such/folder";
  const Status folder = ChildProcess::spawn(options).status();
  EXPECT_EQ(folder.code(), StatusCode::not_found);
  EXPECT_NE(folder.message().find("/no/such/folder"), std::string::npos);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no zombie is left";
  EXPECT_EQ(errno, ECHILD);
}

TEST(Process, SignalsByPidfdAndPolls) {
  auto child = ChildProcess::spawn(shell("exec sleep 1000"));
  ASSERT_TRUE(child.is_ok());
  EXPECT_FALSE(child->poll()->ended);
  EXPECT_EQ(child->wait(Deadline::after_ms(10)).status().code(), StatusCode::deadline_exceeded);
  ASSERT_TRUE(child->send_signal(SIGKILL).is_ok());
  const auto exit = child->wait(soon());
  ASSERT_TRUE(exit.is_ok());
  EXPECT_TRUE(exit->signaled);
  EXPECT_EQ(exit->shell_code(), 137);
  EXPECT_EQ(exit->to_string(), "signal 9 (SIGKILL)");
  EXPECT_TRUE(child->poll()->ended);
  EXPECT_EQ(child->send_signal(SIGTERM).code(), StatusCode::not_found);
  EXPECT_EQ(open_pidfd(child->pid()).status().code(), StatusCode::not_found);
}

TEST(Process, IgnoredAndBlockedSignalsAreResetInTheChild) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto old = std::signal(SIGPIPE, SIG_IGN);
  const Outcome outcome = run(shell("grep -E 'Sig(Blk|Ign)' /proc/self/status"));
  std::signal(SIGPIPE, old);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(outcome.output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(Process, OnlyTheDescriptorsToKeepStayOpen) {
  const UniqueFd leaky(::open("/dev/null", O_RDONLY));  // Not close-on-exec, on purpose.
  const UniqueFd kept(::open("/etc/hostname", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(leaky.valid() && kept.valid());
  SpawnOptions options = shell("for fd in " + std::to_string(leaky.get()) + " " + std::to_string(kept.get()) +
                               "; do [ -e /proc/self/fd/$fd ] && echo open || echo closed; done");
  options.keep_fds = {kept.get()};
  EXPECT_EQ(run(options).output, "closed\nopen\n");
}

TEST(Process, SessionsAndGroups) {
  SpawnOptions options = shell(
      "read -r pid name state parent group session rest < /proc/self/stat; "
      "[ $group = $$ ] && echo group; [ $session = $$ ] && echo session; true");
  EXPECT_EQ(run(options).output, "");
  options.new_process_group = true;
  EXPECT_EQ(run(options).output, "group\n");
  options.new_session = true;
  EXPECT_EQ(run(options).output, "group\nsession\n");
}

TEST(Process, StreamsMayBeAnyDescriptors) {
  SpawnOptions options = shell("echo to-stderr >&2; echo to-stdout");
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  const UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  options.stderr_fd = writer.get();
  EXPECT_EQ(run(options).output, "to-stdout\n");
  writer.reset();
  char buffer[64];
  const ssize_t got = ::read(reader.get(), buffer, sizeof(buffer));
  EXPECT_EQ(std::string(buffer, got > 0 ? static_cast<std::size_t>(got) : 0), "to-stderr\n");
}

TEST(Process, ANewPidNamespaceMakesTheChildItsInit) {
  SpawnOptions options = shell("echo $$");
  options.new_pid_namespace = true;
  options.parent_death_signal = SIGKILL;
  const auto probe = ChildProcess::spawn(options);
  if (!probe.is_ok() && probe.status().code() == StatusCode::permission_denied) {
    GTEST_SKIP() << "needs root: " << probe.status().to_string();
  }
  ASSERT_TRUE(probe.is_ok()) << probe.status().to_string();
  ChildProcess child = std::move(const_cast<Result<ChildProcess>&>(probe)).value();
  ASSERT_TRUE(child.wait(soon()).is_ok());
  EXPECT_EQ(run(options).output, "1\n");
}

TEST(Process, TheDeathSignalFollowsTheSpawningThread) {
  SpawnOptions options = shell("exec sleep 1000");
  options.parent_death_signal = SIGKILL;
  Result<ChildProcess> child = unavailable("not yet spawned");
  std::thread([&] { child = ChildProcess::spawn(options); }).join();
  ASSERT_TRUE(child.is_ok());
  const auto exit = child->wait(soon());
  ASSERT_TRUE(exit.is_ok());
  EXPECT_EQ(exit->signal, SIGKILL);
}

TEST(Process, ThreadsMaySpawnTogether) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < 5; ++i) {
        const std::string text = std::to_string(thread * 100 + i);
        EXPECT_EQ(run(shell("echo " + text)).output, text + "\n");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Process, IdentityTellsAPidFromItsSuccessor) {
  const auto self = process_identity(current_pid());
  ASSERT_TRUE(self.is_ok()) << self.status().to_string();
  EXPECT_EQ(self->pid, ::getpid());
  EXPECT_GT(self->start_time_ticks, 0U);
  EXPECT_EQ(self->boot_id, boot_id());
  EXPECT_EQ(*process_identity(current_pid()), *self);
  auto child = ChildProcess::spawn(shell("read x"));
  ASSERT_TRUE(child->wait(soon()).is_ok());
  EXPECT_EQ(process_identity(child->pid()).status().code(), StatusCode::not_found);
}

TEST(Process, SpawnFaultsAreInjected) {
  const ScopedFaultInjector injector([](std::string_view site) { return site == "process.spawn" ? EAGAIN : 0; });
  EXPECT_EQ(ChildProcess::spawn(shell("true")).status().code(), StatusCode::resource_exhausted);
}

TEST(Process, NamesAndRandomText) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGRTMIN + 2), "SIGRTMIN+2");
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(boot_id().size(), 36U);
  EXPECT_EQ(random_hex(0), "");
  EXPECT_EQ(random_hex(100).size(), 200U);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(seen.insert(random_hex(8)).second);
}

}  // namespace
}  // namespace trireme
