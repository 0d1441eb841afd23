// Who a recorder's process is, and who only looks at it. Our own: on a fast machine a shim
// and its ranks start within one tick of the kernel's clock, and signals meant for a rank
// went to the shim; whoever looked at a job was taken for a part of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "runtime/platform/api/process.h"
#include "runtime/telemetry/api/inspect.h"
#include "runtime/telemetry/api/recorder.h"

namespace trireme {
namespace {

RecorderIdentity identity(const std::string& job) {
  RecorderIdentity who;
  who.job_id = job;
  who.host = "here";
  who.program = "train";
  who.size = 1;
  return who;
}

const JobView* find(const std::vector<JobView>& jobs, const std::string& id) {
  for (const JobView& job : jobs) {
    if (job.job_id == id) return &job;
  }
  return nullptr;
}

// A forked process that writes one byte when it is ready and waits to be killed.
template <typename Prepare>
pid_t fork_and_prepare(const Prepare& prepare) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    [[maybe_unused]] const auto kept = prepare();
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Inspection, AShimThatStartsWithItsRankIsNotTakenForIt) {
  bool met = false;
  for (int i = 0; i < 200 && !met; ++i) {
    const std::string job = "together-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    UniqueFd memory = std::move(make_recorder_memory(identity(job))).value();
    // Both hold it, the shim under the smaller number.
    const pid_t shim = fork_and_prepare([] { return 0; });
    const pid_t rank = fork_and_prepare([&] { return Recorder::open(identity(job), memory.get()); });
    memory.reset();
    met = process_identity(shim)->start_time_ticks == process_identity(rank)->start_time_ticks;
    if (met) {
      const std::vector<JobView> jobs = find_jobs();
      const JobView* found = find(jobs, job);
      EXPECT_NE(found, nullptr);
      if (found != nullptr) {
        EXPECT_EQ(found->ranks.at(0).pid, rank) << "the shim is " << shim;
        EXPECT_EQ(choose_job(jobs, std::to_string(shim))->job_id, job);
      }
    }
    end(rank);
    end(shim);
  }
  EXPECT_TRUE(met) << "200 times two processes started one after the other, never within 10 ms";
}

TEST(Inspection, WhoLooksAtAJobIsNotPartOfIt) {
  const std::string job = "looked-at-" + std::to_string(::getpid());
  const pid_t rank = fork_and_prepare([&] { return Recorder::open(identity(job), -1); });
  std::string recorder;
  for (int fd = 3; fd < 64 && recorder.empty(); ++fd) {
    const std::string path = "/proc/" + std::to_string(rank) + "/fd/" + std::to_string(fd);
    char target[128] = {};
    if (::readlink(path.c_str(), target, sizeof(target) - 1) > 0 &&
        std::string(target).find(recorder_layout::kMemoryName) != std::string::npos) {
      recorder = path;
    }
  }
  EXPECT_NE(recorder, "");
  const pid_t onlooker = fork_and_prepare([&] { return ::open(recorder.c_str(), O_RDONLY | O_CLOEXEC); });
  const std::vector<JobView> jobs = find_jobs();
  const JobView* found = find(jobs, job);
  EXPECT_NE(found, nullptr);
  if (found != nullptr) {
    EXPECT_EQ(found->pids, std::vector<std::int64_t>{rank});
  }
  EXPECT_EQ(choose_job(jobs, std::to_string(rank))->job_id, job);
  const auto others = choose_job(jobs, std::to_string(onlooker));
  EXPECT_TRUE(!others.is_ok() || others->job_id != job);
  end(onlooker);
  end(rank);
}

}  // namespace
}  // namespace trireme
