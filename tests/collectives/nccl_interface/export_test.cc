// What the library lets out: the symbols of NCCL 2.28 under NCCL's SONAME, and no other.
#include <dlfcn.h>

#include <cstdio>

#include <gtest/gtest.h>

#include "tests/collectives/nccl_interface/symbols.h"

namespace trireme::test {
namespace {

const std::string kLibrary = std::string(TRIREME_NCCL_FOLDER) + "/libnccl.so.2";

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  return pclose(pipe) == 0 ? text : "";
}

TEST(NcclExports, EverySymbolIsThere) {
  void* library = dlopen(kLibrary.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const std::string& name : listed_symbols(TRIREME_SOURCE_DIR))
    EXPECT_NE(dlsym(library, name.c_str()), nullptr) << name;
  // A profiler that defines ncclX must be able to reach us by pncclX.
  EXPECT_EQ(dlsym(library, "ncclAllReduce"), dlsym(library, "pncclAllReduce"));
}

TEST(NcclExports, AndNothingElse) {
  const std::string text = output_of("nm -D --defined-only " + kLibrary + " 2>/dev/null");
  if (text.empty()) GTEST_SKIP() << "needs nm (package binutils)";
  const std::set<std::string> listed = listed_symbols(TRIREME_SOURCE_DIR);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    EXPECT_EQ(listed.count(name), 1U) << name;
    // ncclX is weak, so that a profiler's own takes its place; pncclX is not.
    EXPECT_NE(line.find(name[0] == 'p' ? " T " : " W "), std::string::npos) << line;
  }
}

TEST(NcclExports, TheSonameIsNccls) {
  const std::string text = output_of("readelf -d " + kLibrary + " 2>/dev/null");
  if (text.empty()) GTEST_SKIP() << "needs readelf (package binutils)";
  EXPECT_NE(text.find("soname: [libnccl.so.2]"), std::string::npos) << text;
}

#ifndef TRIREME_HAVE_NCCL_HEADER
TEST(NcclExports, TheHeaderIsCompared) {
  GTEST_SKIP() << "needs nccl.h of NCCL 2.28 (with the CUDA toolkit): for abi_test.cc and the programs written for it";
}
#endif

}  // namespace
}  // namespace trireme::test
