#include <trireme/base/status.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <type_traits>

namespace trireme {
namespace {

constexpr int kCodes = static_cast<int>(StatusCode::io_error) + 1;

TEST(Status, TheDefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.is_ok());
  EXPECT_TRUE(static_cast<bool>(status));
  EXPECT_EQ(status.code(), StatusCode::ok);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.to_string(), "ok");
  EXPECT_TRUE(status.with_context("opening").is_ok());
  EXPECT_TRUE(Status(StatusCode::ok, "ignored").is_ok());
}

TEST(Status, EveryCodeHasItsOwnNameAndAnExitCode) {
  std::set<std::string> names;
  for (int i = 0; i < kCodes; ++i) {
    const auto code = static_cast<StatusCode>(i);
    names.insert(std::string(to_string(code)));
    EXPECT_EQ(exit_code(code) == 0, code == StatusCode::ok);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kCodes));
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(exit_code(StatusCode::invalid_argument), 2);
  EXPECT_EQ(exit_code(StatusCode::resource_exhausted), 2);
  EXPECT_EQ(exit_code(StatusCode::peer_dead), 1);
  EXPECT_EQ(exit_code(StatusCode::data_loss), 1);
}

TEST(Status, EveryMakerGivesTheCodeOfItsName) {
  const Status made[] = {
      invalid_argument("m"),  not_found("m"),   already_exists("m"), permission_denied("m"), resource_exhausted("m"),
      deadline_exceeded("m"), peer_dead("m"),   mismatch("m"),       aborted("m"),           stale_epoch("m"),
      data_loss("m"),         unavailable("m"), unsupported("m"),    io_error("m")};
  int code = 1;
  for (const Status& status : made) {
    EXPECT_FALSE(status.is_ok());
    EXPECT_EQ(status.code(), static_cast<StatusCode>(code++));
    EXPECT_EQ(status.to_string(), std::string(to_string(status.code())) + ": m");
  }
  EXPECT_EQ(code, kCodes);
}

TEST(Status, ContextComesFirstAndTheCodeStays) {
  const Status status = not_found("no file").with_context("/a/b").with_context("loading");
  EXPECT_EQ(status.code(), StatusCode::not_found);
  EXPECT_EQ(status.message(), "loading: /a/b: no file");
}

TEST(ErrnoStatus, NamesTheErrorAndChoosesTheCode) {
  const Status status = errno_status(ENOSPC, "write(/data/x), 4096 bytes");
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_EQ(status.message(), "write(/data/x), 4096 bytes: ENOSPC (No space left on device)");
  EXPECT_EQ(errno_status(ENOENT, "x").code(), StatusCode::not_found);
  EXPECT_EQ(errno_status(EEXIST, "x").code(), StatusCode::already_exists);
  EXPECT_EQ(errno_status(EROFS, "x").code(), StatusCode::permission_denied);
  EXPECT_EQ(errno_status(EINVAL, "x").code(), StatusCode::invalid_argument);
  EXPECT_EQ(errno_status(ETIMEDOUT, "x").code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(errno_status(ECONNREFUSED, "x").code(), StatusCode::unavailable);
  EXPECT_EQ(errno_status(EPIPE, "x").code(), StatusCode::peer_dead);
  EXPECT_EQ(errno_status(EIO, "x").code(), StatusCode::io_error);
}

TEST(ErrnoStatus, AnUnknownNumberIsStillAnError) {
  const Status status = errno_status(99'999, "ioctl");
  EXPECT_EQ(status.code(), StatusCode::io_error);
  EXPECT_EQ(status.message(), "ioctl: errno 99999 (unknown error)");
}

Result<int> half(int value) {
  if (value % 2 != 0) return invalid_argument("odd");
  return value / 2;
}

Result<int> quarter(int value) {
  TRIREME_ASSIGN_OR_RETURN(const int first, half(value));
  TRIREME_ASSIGN_OR_RETURN(const int second, half(first));
  return second;
}

Status check_quarter(int value, int& calls) {
  TRIREME_RETURN_IF_ERROR(quarter(value).status());
  ++calls;
  return {};
}

TEST(Result, MacrosPassTheFirstErrorOn) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().to_string(), "invalid_argument: odd");
  int calls = 0;
  EXPECT_TRUE(check_quarter(4, calls).is_ok());
  EXPECT_FALSE(check_quarter(3, calls).is_ok());
  EXPECT_EQ(calls, 1);
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  ASSERT_TRUE(result.is_ok());
  EXPECT_TRUE(result.status().is_ok());
  EXPECT_EQ(**result, 5);
  std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
  static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
}

TEST(Result, ReachesMembersThroughTheArrow) {
  Result<std::string> result(std::string("abc"));
  result->push_back('d');
  const Result<std::string>& constant = result;
  EXPECT_EQ(constant->size(), 4u);
}

TEST(ResultDeath, MisuseStopsTheProgramAndSaysWhy) {
  const Result<int> failed = not_found("the thing");
  EXPECT_DEATH(failed.value(), "not_found: the thing");
  EXPECT_DEATH(Result<int>(Status::ok()), "ok Status");
}

TEST(CheckDeath, PrintsConditionPlaceAndMessage) {
  const int ranks = 0;
  EXPECT_DEATH(TRIREME_CHECK(ranks > 0, "a world has ranks"),
               "status_test.cc:[0-9]+: check failed: ranks > 0: a world");
  TRIREME_CHECK(ranks == 0, "holds, so nothing happens");
}

TEST(CheckDeath, DcheckIsForBuildsWithoutNdebug) {
  int evaluations = 0;
#ifdef NDEBUG
  TRIREME_DCHECK(++evaluations > 5, "not evaluated");
  EXPECT_EQ(evaluations, 0);
#else
  EXPECT_DEATH(TRIREME_DCHECK(++evaluations > 5, "evaluated"), "evaluated");
#endif
}

}  // namespace
}  // namespace trireme
