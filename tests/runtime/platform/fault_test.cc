#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

TEST(Fault, NothingIsInjectedByDefault) {
  EXPECT_EQ(inject_fault("file.open"), 0);
}

TEST(Fault, TheInjectorChoosesSiteAndErrno) {
  {
    const ScopedFaultInjector injector([](std::string_view site) { return site == "file.open" ? EIO : 0; });
    const auto file = File::open("/dev/null", File::Mode::read);
    ASSERT_FALSE(file.is_ok());
    EXPECT_EQ(file.status().code(), StatusCode::io_error);
    EXPECT_NE(file.status().message().find("/dev/null"), std::string::npos);
    EXPECT_TRUE(free_disk_bytes("/").is_ok());
  }
  EXPECT_TRUE(File::open("/dev/null", File::Mode::read).is_ok());
}

TEST(Fault, ThreadsMayAskWhileInjectorsComeAndGo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const int fault = inject_fault("file.read");
        EXPECT_TRUE(fault == 0 || fault == EIO);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const ScopedFaultInjector injector([](std::string_view) { return EIO; });
    EXPECT_EQ(inject_fault("file.read"), EIO);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace trireme
