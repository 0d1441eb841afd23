#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>

#include <fmt/core.h>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "runtime/telemetry/api/inspect.h"

namespace trireme {
namespace {

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What follows the name in /proc/PID/stat: the state, then fields 4 and up.
struct Stat {
  char state = 'X';
  std::int64_t parent = 0;
  std::uint64_t start_ticks = 0;
};
std::optional<Stat> read_stat(std::int64_t pid) {
  const Result<std::string> text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text.is_ok()) return std::nullopt;
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  Stat stat;
  std::string ignored;
  fields >> stat.state >> stat.parent;
  for (int field = 5; field < 22; ++field) fields >> ignored;
  fields >> stat.start_ticks;
  if (!fields) return std::nullopt;
  return stat;
}

// One recorder and the processes that hold it open.
struct Found {
  std::optional<File> file;
  std::vector<std::int64_t> holders;
};
using FileId = std::pair<std::uint64_t, std::uint64_t>;

// Whoever looks at a recorder, as this function's callers do, holds it for reading only.
bool is_open_for_writing(const std::string& descriptor_link) {
  struct stat info {};
  return ::lstat(descriptor_link.c_str(), &info) == 0 && (info.st_mode & S_IWUSR) != 0;
}

void look_at(std::int64_t pid, std::map<FileId, Found>& found) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  const std::string wanted = fmt::format("/memfd:{}", recorder_layout::kMemoryName);
  const Result<std::vector<std::string>> names = list_directory(folder);
  if (!names.is_ok()) return;  // Another user's, or it has ended.
  for (const std::string& name : *names) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(path, error).string();
    if (error || target.rfind(wanted, 0) != 0 || !is_open_for_writing(path)) continue;
    Result<File> file = File::open(path, File::Mode::read);
    struct stat info {};
    if (!file.is_ok() || ::fstat(file->fd(), &info) != 0) continue;
    Found& entry = found[{info.st_dev, info.st_ino}];
    if (!entry.file) entry.file = std::move(file).value();
    if (entry.holders.empty() || entry.holders.back() != pid) entry.holders.push_back(pid);
  }
}

// The process's number in its innermost PID namespace.
std::optional<std::int64_t> innermost_pid(std::int64_t pid) {
  constexpr std::string_view kKey = "\nNSpid:";
  const Result<std::string> text = read_file(fmt::format("/proc/{}/status", pid));
  const std::size_t begin = text.is_ok() ? text->find(kKey) : std::string::npos;
  if (begin == std::string::npos) return std::nullopt;
  const std::string_view line = std::string_view(*text).substr(begin + kKey.size());
  const std::string_view numbers = line.substr(0, line.find('\n'));
  return number(numbers.substr(numbers.find_last_of(" \t") + 1));
}

// Inside a container a rank has another number than here: of the holders it is the one
// that knows itself by the number noted. (A start time alone does not tell it from its
// shim: both may start within one tick of 10 ms.)
std::int64_t pid_here(const Recording& recording, const std::vector<std::int64_t>& holders) {
  if (recording.pid == 0) return recording.launched_pid;
  for (const std::int64_t holder : holders) {
    const std::optional<Stat> stat = read_stat(holder);
    if (stat && stat->start_ticks == recording.start_ticks && innermost_pid(holder) == recording.pid) return holder;
  }
  return recording.pid;
}

RankView view_of(Recording recording, const std::vector<std::int64_t>& holders) {
  RankView view;
  view.rank = recording.identity.rank;
  view.host = recording.identity.host;
  view.pid = pid_here(recording, holders);
  view.state = view.pid == 0 ? '?' : process_state(view.pid, recording.start_ticks);
  if (view.state == 'X' && recording.pid != 0 && !recording.left) {
    view.failed = true;
    view.ended = "its process is gone";
  }
  view.recording = std::move(recording);
  return view;
}

// The same rank twice: an older attempt, or a World that the process has left.
bool is_newer(const RankView& a, const RankView& b) {
  const auto key = [](const RankView& view) {
    return std::tuple(view.recording->identity.epoch, !view.recording->left, view.recording->pid != 0);
  };
  return key(a) > key(b);
}

bool belongs(const JobView& job, std::int64_t pid) {
  const auto is_it = [&](std::int64_t holder) {
    if (holder == pid) return true;
    const std::optional<Stat> stat = read_stat(holder);
    return stat && stat->parent == pid;
  };
  return std::any_of(job.pids.begin(), job.pids.end(), is_it);
}

}  // namespace

char process_state(std::int64_t pid, std::uint64_t start_ticks) {
  const std::optional<Stat> stat = read_stat(pid);
  if (!stat || (start_ticks != 0 && stat->start_ticks != start_ticks)) return 'X';
  return stat->state;
}

std::vector<JobView> find_jobs(const ReadLimits& limits) {
  std::map<FileId, Found> found;
  if (const auto names = list_directory("/proc"); names.is_ok()) {
    for (const std::string& name : *names) {
      if (const auto pid = number(name); pid) look_at(*pid, found);
    }
  }
  std::map<std::string, JobView> jobs;
  for (auto& [id, entry] : found) {
    Result<Recording> recording = read_recording(entry.file->fd(), limits);
    if (!recording.is_ok()) continue;  // Not a recorder of this version.
    RankView view = view_of(*std::move(recording), entry.holders);
    const RecorderIdentity& identity = view.recording->identity;
    if (view.recording->left && view.state == 'X') continue;  // It has ended in order.
    std::string key = identity.job_id.empty() ? fmt::format("pid-{}", view.pid) : identity.job_id;
    JobView& job = jobs[key];
    job.job_id = std::move(key);
    job.size = std::max(job.size, identity.size);
    job.program = identity.program;
    job.pids.insert(job.pids.end(), entry.holders.begin(), entry.holders.end());
    const auto same = std::find_if(job.ranks.begin(), job.ranks.end(),
                                   [&](const RankView& known) { return known.rank == view.rank; });
    if (same == job.ranks.end()) {
      job.ranks.push_back(std::move(view));
    } else if (is_newer(view, *same)) {
      *same = std::move(view);
    }
  }
  std::vector<JobView> list;
  for (auto& [key, job] : jobs) {
    std::sort(job.ranks.begin(), job.ranks.end(), [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
    list.push_back(std::move(job));
  }
  return list;
}

Result<JobView> choose_job(const std::vector<JobView>& jobs, std::string_view job_or_pid) {
  std::vector<const JobView*> like;
  for (const JobView& job : jobs) {
    if (job.job_id == job_or_pid) return job;
    if (job.job_id.rfind(job_or_pid, 0) == 0) like.push_back(&job);
  }
  if (const auto pid = number(job_or_pid); pid) {
    for (const JobView& job : jobs) {
      if (belongs(job, *pid)) return job;
    }
  }
  if (like.size() == 1) return *like.front();
  std::string known;
  for (const JobView& job : jobs) known += (known.empty() ? "" : ", ") + job.job_id;
  return not_found(fmt::format("no job '{}' here, and no process of that number belongs to one. {}", job_or_pid,
                               known.empty() ? "No ranks of this user run on this host" : "Jobs: " + known));
}

}  // namespace trireme
