// The fixture of regression tests that run `trireme run -- test_regressions_rank ...`.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "tests/launcher/launch_fixture.h"

namespace trireme::testing {

class RegressionTest : public LaunchTest {
 protected:
  static std::vector<std::string> job(std::vector<std::string> flags, const std::vector<std::string>& program) {
    flags.insert(flags.begin(), {"run", "--oversubscribe"});
    flags.insert(flags.end(), {"--", TRIREME_BINARY_DIR "/tests/test_regressions_rank"});
    flags.insert(flags.end(), program.begin(), program.end());
    return flags;
  }
  // Lines of standard output, without their tags, that contain `text`.
  static std::vector<std::string> lines_with(const RunResult& result, const std::string& text) {
    std::vector<std::string> found;
    for (const std::string& line : lines_of(result.out)) {
      if (line.find(text) != std::string::npos) found.push_back(line.substr(line.find(' ') + 1));
    }
    return found;
  }
  // `script` by sh, with $trireme, $rank_program and $folder set.
  RunResult shell(const std::string& script);
  // The words that run a script in a new namespace; "" where this user may not have one.
  static std::string unshare(const std::string& kinds);
};

}  // namespace trireme::testing
