// The flight recorder's memory: what is written is read back, by anyone, at any moment.
#include "runtime/telemetry/api/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include <trireme/platform/clock.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/api/system.h"
#include "runtime/telemetry/api/recording.h"

namespace trireme {
namespace {

RecorderIdentity identity() {
  RecorderIdentity who;
  who.job_id = "job-7";
  who.host = "node1";
  who.program = "train --layers 4";
  who.rank = 2;
  who.size = 8;
  who.node_rank = 1;
  who.local_rank = 2;
  who.epoch = 3;
  who.attempt = 2;
  return who;
}

CallRecord call(std::uint64_t sequence, std::uint64_t count = 100) {
  return {1, DataType::f32, ReduceOp::max, sequence, count, 5, -3};
}

std::int64_t blocks_of(int fd) {
  struct stat info {};
  EXPECT_EQ(::fstat(fd, &info), 0);
  return info.st_blocks * 512;
}

TEST(Recorder, WhatIsWrittenIsReadBack) {
  const auto recorder = Recorder::open(identity(), -1);
  recorder->name_op(1, "reduce");
  recorder->name_algorithm(4, "ring");
  const auto channel = recorder->open_channel(0xabcd, 1, {0, 2, 4, 6}, "shm+tcp");
  const std::int64_t before = wall_clock_ns();
  const std::uint64_t index = channel->enter(call(1), tsc_now());
  channel->start(index, 4, tsc_now());
  channel->wait_for(index, 6);
  channel->enter(call(2), tsc_now());
  const Recording recording = read_recording(recorder->fd()).value();
  EXPECT_EQ(recording.identity, identity());
  EXPECT_EQ(recording.pid, ::getpid());
  EXPECT_EQ(recording.start_ticks, process_identity(::getpid())->start_time_ticks);
  EXPECT_FALSE(recording.left);
  ASSERT_EQ(recording.communicators.size(), 1u);
  const RecordedCommunicator& communicator = recording.communicators[0];
  EXPECT_TRUE(communicator.open);
  EXPECT_EQ(communicator.context, 0xabcdu);
  EXPECT_EQ(communicator.members, (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(communicator.rank, 1);
  EXPECT_EQ(communicator.transports, "shm+tcp");
  ASSERT_EQ(communicator.recent.size(), 2u);
  const RecordedCall& first = communicator.recent[0];
  EXPECT_EQ(first.describe(), "reduce(count=100, f32, max, root=5, details=fffffffd)");
  EXPECT_EQ(first.tag, -3);
  EXPECT_EQ(first.algorithm, "ring");
  EXPECT_EQ(first.state, CallState::moving);
  EXPECT_EQ(first.waits_for, 6);
  // The counter's rate is known to a few parts in ten thousand.
  EXPECT_GE(first.entered_ns, before - 1'000'000);
  EXPECT_LE(first.entered_ns, first.started_ns);
  EXPECT_LE(first.started_ns, recording.read_at_ns);
  EXPECT_EQ(first.ended_ns, 0);
  EXPECT_EQ(communicator.recent[1].state, CallState::entered);
  EXPECT_EQ(communicator.pending_call(), &communicator.recent[0]);
}

TEST(Recorder, TheRingKeepsTheLastCallsAndForgetsLateEnds) {
  const auto recorder = Recorder::open(identity(), -1);
  const auto channel = recorder->open_channel(2, 0, {2, 3}, "shm");
  const std::uint64_t old = channel->enter(call(0, 7), tsc_now());
  for (std::uint64_t i = 1; i <= 3000; ++i) channel->end(channel->enter(call(i), tsc_now()), i != 3000, tsc_now());
  channel->end(old, true, tsc_now());  // Its place belongs to another call now.
  channel->wait_for(old, 1);
  const Recording recording = read_recording(recorder->fd()).value();
  const RecordedCommunicator& communicator = recording.communicators.at(0);
  EXPECT_EQ(communicator.calls, 3001u);
  EXPECT_EQ(communicator.done_sequence, 2999u);
  ASSERT_EQ(communicator.recent.size(), recorder_layout::kCalls);
  std::uint64_t sequence = 3000 - recorder_layout::kCalls;
  for (const RecordedCall& each : communicator.recent) {
    EXPECT_EQ(each.sequence, ++sequence);
    EXPECT_EQ(each.state, sequence == 3000 ? CallState::failed : CallState::done);
    EXPECT_EQ(each.waits_for, -1);
  }
  EXPECT_EQ(read_recording(recorder->fd(), {5, true})->communicators.at(0).recent.size(), 5u);
}

TEST(Recorder, MembersInAnyShape) {
  const auto recorder = Recorder::open(
      [] {
        RecorderIdentity who = identity();
        who.size = 2000;
        return who;
      }(),
      -1);
  std::mt19937 random(7);
  std::vector<std::vector<int>> groups = {{5}, {9, 3}, {9, 6, 3, 0}, {1, 2, 4}};
  std::vector<int> odd(512);
  for (int& member : odd) member = static_cast<int>(random() % 2000);
  groups.push_back(odd);
  std::vector<int> all(2000);
  for (int i = 0; i < 2000; ++i) all[static_cast<std::size_t>(i)] = i;
  groups.push_back(all);
  std::vector<std::shared_ptr<RecorderChannel>> channels;
  for (const auto& group : groups) channels.push_back(recorder->open_channel(channels.size(), 0, group, "tcp"));
  odd.push_back(4);
  channels.push_back(recorder->open_channel(99, 0, odd, "tcp"));
  const Recording recording = read_recording(recorder->fd()).value();
  ASSERT_EQ(recording.communicators.size(), groups.size() + 1);
  for (std::size_t i = 0; i < groups.size(); ++i) EXPECT_EQ(recording.communicators[i].members, groups[i]) << i;
  EXPECT_TRUE(recording.communicators.back().members.empty());  // Too many and irregular.
  EXPECT_EQ(recording.communicators.back().size, 513);
}

TEST(Recorder, CountsGoOnWhenCommunicatorsEndAndMemoryDoesNotGrow) {
  const auto recorder = Recorder::open(identity(), -1);
  recorder->name_op(1, "reduce");
  recorder->name_algorithm(0, "tree");
  std::int64_t after_some = 0;
  for (int round = 0; round < 1000; ++round) {
    const auto channel = recorder->open_channel(static_cast<std::uint64_t>(round), 0, {0, 2}, "shm");
    for (std::uint64_t i = 1; i <= 5; ++i) {
      const std::uint64_t index = channel->enter(call(i), tsc_now());
      channel->start(index, 0, tsc_now());
      channel->end(index, i != 5, tsc_now());
    }
    if (round == 20) after_some = blocks_of(recorder->fd());
  }
  EXPECT_EQ(blocks_of(recorder->fd()), after_some);
  const Recording recording = read_recording(recorder->fd()).value();
  ASSERT_EQ(recording.counters.size(), 1u);
  const CallCounters& counters = recording.counters[0];
  EXPECT_EQ(counters.op + counters.algorithm + counters.transports, "reducetreeshm");
  EXPECT_EQ(counters.failures, 1000u);
  EXPECT_EQ(counters.bytes, 4000u * 400);
  std::uint64_t calls = 0;
  for (const std::uint64_t bucket : counters.buckets) calls += bucket;
  EXPECT_EQ(calls, 4000u);
  EXPECT_LE(recording.communicators.size(), 16u);
  for (const auto& communicator : recording.communicators) EXPECT_FALSE(communicator.open);
}

TEST(Recorder, ThousandLiveCommunicatorsAndThenSome) {
  const auto recorder = Recorder::open(identity(), -1);
  std::vector<std::shared_ptr<RecorderChannel>> channels;
  for (std::uint64_t i = 0; i < recorder_layout::kChannels + 3; ++i) {
    channels.push_back(recorder->open_channel(i, 0, {0, 1}, "shm"));
    channels.back()->end(channels.back()->enter(call(1), tsc_now()), true, tsc_now());
  }
  Recording recording = read_recording(recorder->fd()).value();
  EXPECT_EQ(recording.communicators.size(), recorder_layout::kChannels);
  EXPECT_EQ(recording.unrecorded, 3u);
  channels.clear();
  channels.push_back(recorder->open_channel(7777, 0, {0, 1}, "shm"));
  recording = read_recording(recorder->fd()).value();
  std::uint64_t calls = 0;
  for (const std::uint64_t bucket : recording.counters.at(0).buckets) calls += bucket;
  EXPECT_EQ(calls, recorder_layout::kChannels + 3);  // The unrecorded ones were counted.
}

TEST(Recorder, NamedMetricsAndTheFirstFailure) {
  const auto recorder = Recorder::open(identity(), -1);
  std::atomic<std::uint64_t>* counter = recorder->metric("trireme_failures_total", "code=\"peer_dead\"");
  ASSERT_NE(counter, nullptr);
  counter->fetch_add(3);
  EXPECT_EQ(recorder->metric("trireme_failures_total", "code=\"peer_dead\""), counter);
  EXPECT_NE(recorder->metric("trireme_failures_total", "code=\"mismatch\""), counter);
  EXPECT_TRUE(recorder->record_failure(peer_dead("rank 3 \x1b[31m is dead"), 3, 9));
  EXPECT_FALSE(recorder->record_failure(mismatch("later"), 1, 9));
  recorder->leave();
  const Recording recording = read_recording(recorder->fd()).value();
  ASSERT_EQ(recording.named.size(), 2u);
  EXPECT_EQ(recording.named[0].value, 3u);
  EXPECT_EQ(recording.named[0].labels, "code=\"peer_dead\"");
  ASSERT_TRUE(recording.failure.has_value());
  EXPECT_EQ(recording.failure->text, "peer_dead: rank 3 ?[31m is dead");  // Nothing that a terminal obeys.
  EXPECT_EQ(recording.failure->culprit, 3);
  EXPECT_TRUE(recording.left);
  for (std::size_t i = 2; i < recorder_layout::kNamedMetrics; ++i) {
    EXPECT_NE(recorder->metric("m" + std::to_string(i), ""), nullptr);
  }
  EXPECT_EQ(recorder->metric("one too many", ""), nullptr);
}

TEST(Recorder, OutlivesAKilledRank) {
  const UniqueFd memory = std::move(make_recorder_memory(identity())).value();
  EXPECT_EQ(read_recording(memory.get())->pid, 0);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto recorder = Recorder::open(identity(), memory.get());
    const auto channel = recorder->open_channel(1, 0, {2, 3}, "shm");
    channel->start(channel->enter(call(1), tsc_now()), 0, tsc_now());
    if (!recorder->is_shared() || ::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (std::uint64_t i = 2;; ++i) channel->end(channel->enter(call(i), tsc_now()), true, tsc_now());
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  int state = 0;
  ::waitpid(child, &state, 0);
  EXPECT_TRUE(WIFSIGNALED(state));
  const Recording recording = read_recording(memory.get()).value();
  EXPECT_EQ(recording.pid, child);
  EXPECT_FALSE(recording.left);
  EXPECT_GE(recording.communicators.at(0).recent.size(), 1u);
  // Its successor starts anew.
  const auto successor = Recorder::open(identity(), memory.get());
  EXPECT_TRUE(successor->is_shared());
  EXPECT_TRUE(read_recording(memory.get())->communicators.empty());
  EXPECT_FALSE(Recorder::open(identity(), memory.get())->is_shared()) << "two owners at once";
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(Recorder, AForkedChildLeavesItAlone) {
  auto recorder = Recorder::open(identity(), -1);
  auto channel = recorder->open_channel(1, 0, {0, 1}, "shm");
  const pid_t child = ::fork();
  if (child == 0) {
    recorder->leave();
    channel.reset();
    recorder->record_failure(aborted("child"), 0, 0);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const Recording recording = read_recording(recorder->fd()).value();
  EXPECT_FALSE(recording.left);
  EXPECT_FALSE(recording.failure.has_value());
  EXPECT_TRUE(recording.communicators.at(0).open);
}

TEST(Recorder, ForeignDescriptorsAreRefused) {
  for (const char* path : {"/dev/null", "/proc/self/exe", "/proc/self/stat"}) {
    const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(read_recording(fd.get()).status().code(), StatusCode::invalid_argument) << path;
    EXPECT_FALSE(Recorder::open(identity(), fd.get())->is_shared()) << path;
  }
  const UniqueFd unsealed(::memfd_create("trireme-recorder", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(recorder_layout::kFileBytes)), 0);
  EXPECT_FALSE(read_recording(unsealed.get()).is_ok());
  EXPECT_FALSE(Recorder::open(identity(), 12345)->is_shared());
}

// Whatever the bytes, reading ends, and what it returns can be printed, judged and written.
TEST(Recorder, GarbageIsReadSafely) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    const UniqueFd memory = std::move(make_recorder_memory(identity())).value();
    using recorder_layout::Channel;
    using recorder_layout::Header;
    const std::size_t bytes = sizeof(Header) + 2 * sizeof(Channel);
    auto* words =
        static_cast<std::uint64_t*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0));
    ASSERT_NE(static_cast<void*>(words), MAP_FAILED);
    for (std::size_t i = 5; i < bytes / 8; ++i) {
      if (random() % 4 == 0) words[i] = round % 2 == 0 ? random() : random() >> (random() % 64);
    }
    reinterpret_cast<Header*>(words)->used_channels.store(2);
    ::munmap(words, bytes);
    const auto recording = read_recording(memory.get());
    ASSERT_TRUE(recording.is_ok()) << recording.status().to_string();
    for (const auto& communicator : recording->communicators) {
      EXPECT_LE(communicator.recent.size(), recorder_layout::kCalls);
    }
    const auto again = recording_from_json(recording_to_json(*recording));
    EXPECT_TRUE(again.is_ok()) << again.status().to_string();
  }
}

// A reader beside a writer sees each call whole or not at all.
TEST(Recorder, TornCallsAreDropped) {
  const auto recorder = Recorder::open(identity(), -1);
  const auto channel = recorder->open_channel(1, 0, {0, 1}, "shm");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop.load(); ++i) {
      CallRecord record = call(i, 3 * i);
      record.root = static_cast<std::int32_t>(i % 1000);
      channel->end(channel->enter(record, tsc_now()), true, tsc_now());
    }
  });
  std::uint64_t seen = 0;
  const Deadline patience = Deadline::after_ms(60'000);
  for (int round = 0; round < 200 || (seen == 0 && !patience.expired()); ++round) {
    const Recording recording = read_recording(recorder->fd()).value();
    for (const RecordedCall& each : recording.communicators.at(0).recent) {
      ++seen;
      EXPECT_EQ(each.sequence, each.index + 1);
      EXPECT_EQ(each.count, 3 * each.sequence);
      EXPECT_EQ(each.root, static_cast<int>(each.sequence % 1000));
    }
  }
  stop.store(true);
  writer.join();
  EXPECT_GT(seen, 0u);
}

TEST(Recorder, JsonKeepsEverything) {
  const auto recorder = Recorder::open(identity(), -1);
  recorder->name_op(1, "all_reduce");
  const auto channel = recorder->open_channel(0xffffffffffffffff, 0, {0, 1, 3}, "tcp");
  channel->end(channel->enter(call(1), tsc_now()), true, tsc_now());
  channel->wait_for(channel->enter(call(2), tsc_now()), 3);
  recorder->metric("trireme_x", "a=\"b\"", true)->store(9);
  recorder->record_failure(deadline_exceeded("late"), -1, 5);
  const Recording recording = read_recording(recorder->fd()).value();
  const std::string text = recording_to_json(recording);
  const auto again = recording_from_json(text);
  ASSERT_TRUE(again.is_ok()) << again.status().to_string();
  EXPECT_EQ(recording_to_json(*again), text);
  EXPECT_EQ(again->communicators.at(0).members, recording.communicators.at(0).members);
  for (const std::string& bad : {std::string("{}"), std::string("[1]"), text.substr(0, text.size() / 2),
                                 std::string("{\"format\":\"trireme-recording\",\"version\":2}")}) {
    EXPECT_EQ(recording_from_json(bad).status().code(), StatusCode::invalid_argument) << bad;
  }
}

}  // namespace
}  // namespace trireme
