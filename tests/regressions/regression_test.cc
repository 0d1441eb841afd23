#include "tests/regressions/regression_test.h"

#include <fcntl.h>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/files.h"

extern char** environ;

namespace trireme::testing {
namespace {

constexpr std::uint64_t kPatienceMs = 100'000;

int shell_code(const std::vector<std::string>& arguments, int out, int err) {
  SpawnOptions options;
  options.program = "sh";
  options.arguments = arguments;
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  options.stdout_fd = out;
  options.stderr_fd = err;
  Result<ChildProcess> child = ChildProcess::spawn(options);
  if (!child.is_ok()) return -1;
  const Result<ExitState> exit = child->wait(Deadline::after_ms(kPatienceMs));
  return exit.is_ok() ? exit->shell_code() : -1;
}

}  // namespace

RunResult RegressionTest::shell(const std::string& script) {
  const std::string out_path = file("shell.out");
  const std::string err_path = file("shell.err");
  const UniqueFd out(::open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const UniqueFd err(::open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::string preface = "trireme='" TRIREME_BINARY_DIR "/bin/trireme run --oversubscribe'\nfolder='" + folder_ +
                              "'\nrank_program='" TRIREME_BINARY_DIR "/tests/test_regressions_rank'\n" +
                              "export trireme rank_program folder\n";
  RunResult result;
  result.code = shell_code({"-c", preface + script}, out.get(), err.get());
  result.out = read_file(out_path).value();
  result.err = read_file(err_path).value();
  return result;
}

std::string RegressionTest::unshare(const std::string& kinds) {
  const std::string words = (::geteuid() == 0 ? "unshare " : "unshare --user --map-root-user ") + kinds;
  return shell_code({"-c", words + " true"}, -1, -1) == 0 ? words + " " : "";
}

}  // namespace trireme::testing
