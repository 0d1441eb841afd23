#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override { folder_ = make_temporary_directory("trireme-files-").value(); }
  void TearDown() override {
    EXPECT_TRUE(remove_tree(folder_).is_ok());
    EXPECT_FALSE(file_info(folder_)->exists);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

TEST_F(Files, WriteReadRoundTrip) {
  std::string bytes(300'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  File file = File::open(path("a"), File::Mode::create_new).value();
  ASSERT_TRUE(file.write(bytes).is_ok());
  ASSERT_TRUE(file.pwrite("XY", 2, 10).is_ok());
  ASSERT_TRUE(file.sync().is_ok());
  EXPECT_EQ(*file.size(), bytes.size());
  std::string middle(2, ' ');
  ASSERT_TRUE(file.pread(middle.data(), 2, 10).is_ok());
  EXPECT_EQ(middle, "XY");
  ASSERT_TRUE(file.close().is_ok());
  bytes.replace(10, 2, "XY");
  EXPECT_EQ(*read_file(path("a")), bytes);
  EXPECT_EQ(file_info(path("a"))->bytes, bytes.size());
}

TEST_F(Files, ModesDoWhatTheySay) {
  EXPECT_EQ(File::open(path("a"), File::Mode::read).status().code(), StatusCode::not_found);
  EXPECT_EQ(File::open(path("a"), File::Mode::update).status().code(), StatusCode::not_found);
  ASSERT_TRUE(File::open(path("a"), File::Mode::append)->write("one").is_ok());
  ASSERT_TRUE(File::open(path("a"), File::Mode::append)->write("two").is_ok());
  EXPECT_EQ(*read_file(path("a")), "onetwo");
  EXPECT_EQ(File::open(path("a"), File::Mode::create_new).status().code(), StatusCode::already_exists);
  ASSERT_TRUE(File::open(path("a"), File::Mode::create)->write("x").is_ok());
  EXPECT_EQ(*read_file(path("a")), "x");
}

TEST_F(Files, ReadingPastTheEndIsDataLoss) {
  File file = File::open(path("a"), File::Mode::create).value();
  ASSERT_TRUE(file.write("12345").is_ok());
  char buffer[8];
  const Status status = file.pread(buffer, 8, 2);
  EXPECT_EQ(status.code(), StatusCode::data_loss);
  EXPECT_NE(status.message().find(path("a")), std::string::npos);
}

TEST_F(Files, AllocateAndTruncate) {
  File file = File::open(path("a"), File::Mode::create).value();
  ASSERT_TRUE(file.allocate(100'000).is_ok());
  EXPECT_EQ(*file.size(), 100'000U);
  ASSERT_TRUE(file.truncate(5).is_ok());
  EXPECT_EQ(*file.size(), 5U);
  const ScopedFaultInjector injector([](std::string_view site) { return site == "file.allocate" ? ENOSPC : 0; });
  EXPECT_EQ(file.allocate(10).code(), StatusCode::resource_exhausted);
}

TEST_F(Files, AtomicWriteReplacesOrLeavesTheOld) {
  ASSERT_TRUE(write_file_atomically(path("a"), "old").is_ok());
  for (const std::string_view bad : {"file.open", "file.write", "file.fsync", "file.rename"}) {
    {
      const ScopedFaultInjector injector([&](std::string_view site) { return site == bad ? ENOSPC : 0; });
      EXPECT_EQ(write_file_atomically(path("a"), "new").code(), StatusCode::resource_exhausted) << bad;
    }
    EXPECT_EQ(*read_file(path("a")), "old");
    EXPECT_EQ(list_directory(folder_)->size(), 1U) << "no temporary file stays behind after " << bad;
  }
  ASSERT_TRUE(write_file_atomically(path("a"), "new").is_ok());
  EXPECT_EQ(*read_file(path("a")), "new");
}

TEST_F(Files, AtomicWriteKeepsLinks) {
  ASSERT_TRUE(write_file_atomically(path("target"), "old").is_ok());
  ASSERT_EQ(::symlink("target", path("link").c_str()), 0);
  ASSERT_TRUE(write_file_atomically(path("link"), "new").is_ok());
  EXPECT_EQ(*read_file(path("target")), "new");
  struct stat info {};
  ASSERT_EQ(::lstat(path("link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
}

// What is no file is written to: a device that was replaced would be gone for everybody.
TEST_F(Files, AtomicWriteNeverReplacesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const UniqueFd reader(::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(check_can_write(path("pipe")).is_ok());
  ASSERT_TRUE(write_file_atomically(path("pipe"), "words").is_ok());
  std::array<char, 16> got{};
  EXPECT_EQ(::read(reader.get(), got.data(), got.size()), 5);
  EXPECT_FALSE(file_info(path("pipe"))->is_file);
  const UniqueFd opened(::open(path("out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string as_proc = "/proc/self/fd/" + std::to_string(opened.get());  // As /dev/stdout is.
  ASSERT_EQ(::write(opened.get(), "before ", 7), 7);
  ASSERT_TRUE(write_file_atomically(as_proc, "after").is_ok());
  EXPECT_EQ(*read_file(path("out")), "before after");
  EXPECT_EQ(list_directory(folder_)->size(), 2U);
}

TEST_F(Files, WhereNothingCanBeWrittenIsSaidBefore) {
  EXPECT_TRUE(check_can_write(path("new")).is_ok());
  EXPECT_EQ(list_directory(folder_)->size(), 0U) << "asking leaves nothing behind";
  const Status missing = check_can_write(path("none/new"));
  EXPECT_EQ(missing.code(), StatusCode::not_found);
  EXPECT_NE(missing.message().find("there is no folder '" + path("none") + "'"), std::string::npos);
  const Status folder = check_can_write(folder_);
  EXPECT_EQ(folder.code(), StatusCode::invalid_argument);
  EXPECT_NE(folder.message().find("it is a folder"), std::string::npos);
  EXPECT_EQ(write_file_atomically(folder_, "x").code(), StatusCode::invalid_argument);
}

TEST_F(Files, FoldersAreMadeListedAndRemoved) {
  ASSERT_TRUE(make_directories(path("x/y/z")).is_ok());
  ASSERT_TRUE(make_directories(path("x/y/z")).is_ok());
  for (const char* name : {"c", "a", "b"}) ASSERT_TRUE(write_file_atomically(path("x/") + name, "1").is_ok());
  EXPECT_EQ(*list_directory(path("x")), (std::vector<std::string>{"a", "b", "c", "y"}));
  ASSERT_EQ(::symlink("/", path("x/y/link").c_str()), 0);
  ASSERT_TRUE(remove_tree(path("x")).is_ok()) << "a link is removed, not followed";
  EXPECT_FALSE(file_info(path("x"))->exists);
  EXPECT_TRUE(remove_tree(path("x")).is_ok());
  EXPECT_EQ(list_directory(path("x")).status().code(), StatusCode::not_found);
  EXPECT_EQ(remove_file(path("x")).code(), StatusCode::not_found);
}

TEST_F(Files, AFileInTheWayOfAFolderIsNamed) {
  ASSERT_TRUE(write_file_atomically(path("a"), "1").is_ok());
  const Status status = make_directories(path("a"));
  EXPECT_EQ(status.code(), StatusCode::already_exists);
  EXPECT_NE(status.message().find("in the way"), std::string::npos);
  EXPECT_FALSE(make_directories(path("a/b")).is_ok());
}

TEST_F(Files, RenameAndSyncOfFolders) {
  ASSERT_TRUE(make_directories(path("old")).is_ok());
  ASSERT_TRUE(rename_path(path("old"), path("new")).is_ok());
  ASSERT_TRUE(sync_directory(folder_).is_ok());
  EXPECT_TRUE(file_info(path("new"))->is_directory);
  EXPECT_EQ(rename_path(path("old"), path("new")).code(), StatusCode::not_found);
}

TEST_F(Files, PathsAreExchanged) {
  ASSERT_TRUE(make_directories(path("a")).is_ok());
  ASSERT_TRUE(write_file_atomically(path("a/in-a"), "1").is_ok());
  ASSERT_TRUE(make_directories(path("b")).is_ok());
  ASSERT_TRUE(exchange_paths(path("a"), path("b")).is_ok());
  EXPECT_TRUE(file_info(path("b/in-a"))->exists);
  EXPECT_EQ(list_directory(path("a"))->size(), 0U);
  EXPECT_EQ(exchange_paths(path("a"), path("c")).code(), StatusCode::not_found);
}

TEST_F(Files, LocksExcludeAndEndWithTheirObject) {
  {
    const auto held = FileLock::acquire(path("lock"), Deadline::after_ms(30'000));
    ASSERT_TRUE(held.is_ok()) << held.status().to_string();
    EXPECT_EQ(FileLock::acquire(path("lock"), Deadline::after_ms(10)).status().code(), StatusCode::deadline_exceeded);
  }
  EXPECT_TRUE(FileLock::acquire(path("lock"), Deadline::after_ms(30'000)).is_ok());
  EXPECT_EQ(FileLock::acquire(path("no/lock"), Deadline::after_ms(0)).status().code(), StatusCode::not_found);
}

TEST_F(Files, FilesOfProcAreReadWhole) {
  const auto text = read_file("/proc/self/status");
  ASSERT_TRUE(text.is_ok());
  EXPECT_NE(text->find("Name:"), std::string::npos);
}

TEST_F(Files, UnreadableFolderIsPermissionDenied) {
  if (::geteuid() == 0) GTEST_SKIP() << "needs a user that is not root: root may read everything";
  ASSERT_EQ(::mkdir(path("closed").c_str(), 0), 0);
  EXPECT_EQ(list_directory(path("closed")).status().code(), StatusCode::permission_denied);
}

}  // namespace
}  // namespace trireme
