#include "launcher/shim/output_router.h"

#include <fmt/core.h>

#include <trireme/platform/environment.h>

namespace trireme {
namespace {

constexpr std::size_t kCongestedBytes = std::size_t{8} << 20;
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr int kColours[] = {36, 32, 33, 35, 34, 31, 96, 92, 93, 95, 94, 91};

}  // namespace

std::string rank_file_path(const std::string& folder, int rank, int attempt, OutputStream stream) {
  const std::string_view suffix = stream == OutputStream::out ? "out" : "err";
  if (attempt == 0) return fmt::format("{}/rank-{}.{}", folder, rank, suffix);
  return fmt::format("{}/rank-{}.attempt-{}.{}", folder, rank, attempt, suffix);
}

Result<std::unique_ptr<OutputRouter>> OutputRouter::create(EventLoop& loop, const JobSpec& job, Events events) {
  std::unique_ptr<OutputRouter> router(new OutputRouter(job, std::move(events)));
  router->open_sinks(loop);
  if (job.output_directory.empty()) return router;
  TRIREME_RETURN_IF_ERROR(make_directories(job.output_directory));
  TRIREME_ASSIGN_OR_RETURN(File merged, File::open(job.output_directory + "/merged.log", File::Mode::create));
  router->merged_ = std::make_unique<File>(std::move(merged));
  return router;
}

// Standard output and error that are one pipe or terminal share one sink, so that a
// line of one never lands inside a line of the other.
void OutputRouter::open_sinks(EventLoop& loop) {
  sinks_[0] = std::make_unique<OutputSink>(loop, 1, [this] { on_sink_change(); });
  if (!same_stream(1, 2)) sinks_[1] = std::make_unique<OutputSink>(loop, 2, [this] { on_sink_change(); });
  coloured_ = !environment("NO_COLOR").has_value();
}

OutputSink& OutputRouter::sink(OutputStream stream) {
  return stream == OutputStream::err && sinks_[1] ? *sinks_[1] : *sinks_[0];
}

Status OutputRouter::begin_attempt(int attempt) {
  ranks_.clear();
  ranks_.resize(job_.ranks.size());
  if (job_.output_directory.empty()) return Status::ok();
  for (std::size_t local = 0; local < ranks_.size(); ++local) {
    for (const OutputStream stream : {OutputStream::out, OutputStream::err}) {
      const std::string path = rank_file_path(job_.output_directory, job_.ranks[local], attempt, stream);
      TRIREME_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::create));
      ranks_[local].file[static_cast<int>(stream)] = std::make_unique<File>(std::move(file));
    }
  }
  return Status::ok();
}

std::string OutputRouter::tag(int local, bool coloured) const {
  const int rank = job_.ranks[static_cast<std::size_t>(local)];
  if (!coloured) return fmt::format("{}:{} ", job_.host, rank);
  return fmt::format("\x1b[{}m{}:{}\x1b[0m ", kColours[rank % static_cast<int>(std::size(kColours))], job_.host, rank);
}

void OutputRouter::write(int local, OutputStream stream, std::string_view bytes) {
  RankOutput& rank = ranks_[static_cast<std::size_t>(local)];
  write_file(rank.file[static_cast<int>(stream)].get(), bytes);
  OutputSink& target = sink(stream);
  const std::string plain_tag = tag(local, false);
  const std::string shown_tag = target.is_terminal() && coloured_ ? tag(local, true) : plain_tag;
  std::string shown;
  std::string merged;
  LineSplitter& splitter = rank.splitter[static_cast<int>(stream)];
  splitter.feed(bytes, [&](std::string_view line) {
    rank.last_lines.add(line);
    if (job_.tag_output) shown.append(shown_tag).append(line).append("\n");
    if (merged_) merged.append(plain_tag).append(line).append("\n");
  });
  write_file(merged_.get(), merged);
  if (!job_.tag_output) {
    target.write(bytes);
  } else {
    write_lines(stream, shown);
    if (target.is_terminal()) show_progress(local, stream);
  }
}

void OutputRouter::end_of_stream(int local, OutputStream stream) {
  RankOutput& rank = ranks_[static_cast<std::size_t>(local)];
  rank.splitter[static_cast<int>(stream)].finish([&](std::string_view line) {
    rank.last_lines.add(line);
    write_file(merged_.get(), tag(local, false).append(line).append("\n"));
    if (job_.tag_output) {
      const bool coloured = sink(stream).is_terminal() && coloured_;
      write_lines(stream, tag(local, coloured).append(line).append("\n"));
    }
  });
}

// A progress line on the terminal makes room and comes back below.
void OutputRouter::write_lines(OutputStream stream, std::string_view lines) {
  if (lines.empty()) return;
  if (progress_.empty() || !sink(stream).is_terminal()) return sink(stream).write(lines);
  sink(stream).write(std::string(kClearLine).append(lines).append(progress_));
}

void OutputRouter::show_progress(int local, OutputStream stream) {
  LineSplitter& splitter = ranks_[static_cast<std::size_t>(local)].splitter[static_cast<int>(stream)];
  splitter.drop_replaced();
  if (job_.ranks[static_cast<std::size_t>(local)] != 0) return;
  const std::string_view text = splitter.progress();
  const std::string next = text.empty() ? std::string() : tag(local, coloured_).append(text);
  if (next == progress_ || (next.empty() && !splitter.held().empty())) return;
  progress_ = next;
  sink(stream).write(std::string(kClearLine) + progress_);
}

void OutputRouter::notice(std::string_view text) {
  const std::string line = fmt::format("trireme: {}\n", text);
  write_lines(OutputStream::err, line);
  write_file(merged_.get(), line);
}

// A full disk must not end the job, and must be said.
void OutputRouter::write_file(File* file, std::string_view bytes) {
  if (file == nullptr || bytes.empty()) return;
  const Status written = file->write(bytes);
  if (written.is_ok() || told_file_error_) return;
  told_file_error_ = true;
  write_lines(OutputStream::err, fmt::format("trireme: output files are incomplete from here on: {}\n",
                                             written.to_string()));
}

std::vector<std::string> OutputRouter::last_lines(int local) const {
  const RankOutput& rank = ranks_[static_cast<std::size_t>(local)];
  LastLines lines = rank.last_lines;
  for (const LineSplitter& splitter : rank.splitter) {
    if (!splitter.held().empty()) lines.add(splitter.held());
  }
  return lines.lines();
}

bool OutputRouter::congested() const {
  return sinks_[0]->pending_bytes() > kCongestedBytes || (sinks_[1] && sinks_[1]->pending_bytes() > kCongestedBytes);
}

bool OutputRouter::flushed() const {
  return sinks_[0]->pending_bytes() == 0 && (!sinks_[1] || sinks_[1]->pending_bytes() == 0);
}

void OutputRouter::on_sink_change() {
  if (sinks_[0] && sinks_[0]->closed() && !told_closed_) {
    told_closed_ = true;
    // What is in files is not lost, so with them the job goes on.
    if (job_.output_directory.empty()) events_.on_closed();
  }
  events_.on_drained();
}

}  // namespace trireme
