// Waiting for a library that is not ours: deadlines, deaths, refusals, what nobody waits for.
#include "collectives/backend/foreign.h"

#include <deque>

#include <gtest/gtest.h>

namespace trireme {
namespace {

// What a scripted library does: how often it says "not yet" before it is done.
struct Script {
  std::deque<int> polls;  // Of each call to come; -1: for ever.
  bool abortable = true;
  Status start_error;
  int tested = 0;
  int aborts = 0;
};

class ScriptedRequest final : public BackendRequest {
 public:
  ScriptedRequest(Script& script, int polls) : script_(script), polls_(polls) {}
  Result<bool> test() override {
    ++script_.tested;
    if (polls_ < 0) return false;
    return polls_-- == 0;
  }

 private:
  Script& script_;
  int polls_;
};

class ScriptedBackend final : public BackendCommunicator {
 public:
  explicit ScriptedBackend(Script& script) : script_(script) {
    info_.name = "scripted";
    info_.abortable = script.abortable;
  }
  const BackendInfo& info() const override { return info_; }
  Status supports(const Call& call, const CallDetails*) const override {
    return call.type == DataType::boolean ? backend_refuses("scripted", call, "knows no bool") : Status::ok();
  }
  Result<std::unique_ptr<BackendRequest>> start(const Call&, const CallDetails*, const void*, void*) override {
    if (!script_.start_error.is_ok()) return script_.start_error;
    const int polls = script_.polls.front();
    script_.polls.pop_front();
    return std::unique_ptr<BackendRequest>(std::make_unique<ScriptedRequest>(script_, polls));
  }
  BackendResult split(int, int) override { return unsupported("scripted"); }
  void abort() override { ++script_.aborts; }

 private:
  Script& script_;
  BackendInfo info_;
};

Call all_reduce_of(DataType type) {
  Call call;
  call.kind = CallKind::all_reduce;
  call.type = type;
  call.count = 3;
  return call;
}

TEST(Foreign, WaitsUntilItIsDone) {
  Script script;
  script.polls = {0, 5000};
  Foreign foreign(std::make_unique<ScriptedBackend>(script), 60'000, [] { return Status::ok(); });
  for (int i = 0; i < 2; ++i) {
    const auto operation = foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr);
    EXPECT_TRUE(foreign.wait(*operation).is_ok());
    EXPECT_TRUE(foreign.wait(*operation).is_ok());  // Again: it stays done.
  }
  EXPECT_TRUE(foreign.status().is_ok());
}

TEST(Foreign, ARefusalBreaksNothing) {
  Script script;
  script.polls = {0};
  Foreign foreign(std::make_unique<ScriptedBackend>(script), 60'000, [] { return Status::ok(); });
  const auto refused = foreign.start(all_reduce_of(DataType::boolean), nullptr, nullptr, nullptr);
  EXPECT_EQ(foreign.wait(*refused).code(), StatusCode::unsupported);
  EXPECT_EQ(foreign.wait(*refused).message(), "all_reduce(count=3, bool, sum): backend scripted knows no bool");
  EXPECT_TRUE(foreign.wait(*foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr)).is_ok());
}

TEST(Foreign, TheDeadlineBreaksItForGood) {
  Script script;
  script.polls = {-1, -1};
  Foreign foreign(std::make_unique<ScriptedBackend>(script), 50, [] { return Status::ok(); });
  const auto first = foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr);
  const auto second = foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr);
  const Status status = foreign.wait(*first);
  EXPECT_EQ(status.code(), StatusCode::deadline_exceeded);
  EXPECT_NE(status.message().find("within 50 ms"), std::string::npos) << status.to_string();
  EXPECT_EQ(script.aborts, 1);
  EXPECT_EQ(foreign.wait(*second).to_string(), status.to_string());
  EXPECT_EQ(foreign.status().to_string(), status.to_string());
  const auto later = foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr);
  EXPECT_EQ(foreign.wait(*later).to_string(), status.to_string());
}

TEST(Foreign, ADeathEndsTheWait) {
  Script script;
  script.polls = {-1};
  Foreign foreign(std::make_unique<ScriptedBackend>(script), 600'000,
                  [&] { return script.tested > 1000 ? peer_dead("rank 1 died") : Status::ok(); });
  const auto operation = foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr);
  EXPECT_EQ(foreign.wait(*operation).to_string(), "peer_dead: rank 1 died");
}

TEST(Foreign, AFailedStartBreaksIt) {
  Script script;
  script.start_error = io_error("no");
  Foreign foreign(std::make_unique<ScriptedBackend>(script), 60'000, [] { return Status::ok(); });
  EXPECT_EQ(foreign.wait(*foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr)).code(),
            StatusCode::io_error);
  EXPECT_EQ(foreign.status().code(), StatusCode::io_error);
}

TEST(Foreign, WhatNobodyWaitsForIsCompletedAtTheEnd) {
  Script script;
  script.polls = {100, 100};
  {
    Foreign foreign(std::make_unique<ScriptedBackend>(script), 60'000, [] { return Status::ok(); });
    (void)foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr);
    (void)foreign.start(all_reduce_of(DataType::f32), nullptr, nullptr, nullptr);
    foreign.poll();
    EXPECT_EQ(script.tested, 2);
  }
  EXPECT_EQ(script.tested, 202);
}

}  // namespace
}  // namespace trireme
