// The committed list of NCCL's symbols (symbols.txt), with their pnccl twins.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "runtime/platform/api/files.h"

namespace trireme::test {

// `source`: the top of the source tree.
inline std::set<std::string> listed_symbols(const std::string& source) {
  const auto text = read_file(source + "/tests/collectives/nccl_interface/symbols.txt");
  EXPECT_TRUE(text.is_ok()) << text.status().to_string();
  std::set<std::string> names;
  std::istringstream lines(text.is_ok() ? text.value() : "");
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    names.insert(line);
    names.insert("p" + line);
  }
  return names;
}

}  // namespace trireme::test
