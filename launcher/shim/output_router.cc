#include "launcher/shim/output_router.h"

#include <fmt/core.h>

#include <trireme/platform/environment.h>

namespace trireme {
namespace {

constexpr std::size_t kCongestedBytes = std::size_t{8} << 20;
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr int kColours[] = {36, 32, 33, 35, 34, 31, 96, 92, 93, 95, 94, 91};

// What a terminal would show of a line that overwrote itself.
std::string_view shown_part(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const std::size_t replaced = line.rfind('\r');
  return replaced == std::string_view::npos ? line : line.substr(replaced + 1);
}

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
  if (!job_.tag_output) sink(stream).write(bytes);
  Lines lines = lines_for(local, stream);
  rank.splitter[static_cast<int>(stream)].feed(bytes, [&](std::string_view line) { lines.add(line); });
  deliver(local, stream, lines);
}

void OutputRouter::end_of_stream(int local, OutputStream stream) {
  RankOutput& rank = ranks_[static_cast<std::size_t>(local)];
  Lines lines = lines_for(local, stream);
  rank.splitter[static_cast<int>(stream)].finish([&](std::string_view line) { lines.add(line); });
  deliver(local, stream, lines);
}

OutputRouter::Lines OutputRouter::lines_for(int local, OutputStream stream) {
  Lines lines;
  lines.last_lines = &ranks_[static_cast<std::size_t>(local)].last_lines;
  lines.terminal = sink(stream).is_terminal();
  lines.plain_tag = tag(local, false);
  lines.shown_tag = lines.terminal && coloured_ ? tag(local, true) : lines.plain_tag;
  return lines;
}

void OutputRouter::Lines::add(std::string_view line) {
  last_lines->add(line);
  shown.append(shown_tag).append(terminal ? shown_part(line) : line).append("\n");
  merged.append(plain_tag).append(line).append("\n");
}

void OutputRouter::deliver(int local, OutputStream stream, const Lines& lines) {
  write_file(merged_.get(), lines.merged);
  if (!job_.tag_output) return;
  if (lines.terminal) return write_terminal(stream, lines.shown, next_progress(local, stream));
  sink(stream).write(lines.shown);
}

// The progress line after this stream's bytes; only a stream of rank 0 changes it.
std::string OutputRouter::next_progress(int local, OutputStream stream) {
  LineSplitter& splitter = ranks_[static_cast<std::size_t>(local)].splitter[static_cast<int>(stream)];
  splitter.drop_replaced();
  if (job_.ranks[static_cast<std::size_t>(local)] != 0) return progress_;
  const std::string_view text = splitter.progress();
  if (text.empty()) return progress_owner_ == stream ? std::string() : progress_;
  progress_owner_ = stream;
  return tag(local, coloured_).append(text);
}

// The progress line makes room and comes back below.
void OutputRouter::write_terminal(OutputStream stream, std::string_view lines, const std::string& progress) {
  if (lines.empty() && progress == progress_) return;
  std::string text(progress_.empty() ? std::string_view() : kClearLine);
  text.append(lines).append(progress);
  progress_ = progress;
  sink(stream).write(text);
}

void OutputRouter::write_own_line(std::string_view line) {
  if (sink(OutputStream::err).is_terminal()) return write_terminal(OutputStream::err, line, progress_);
  sink(OutputStream::err).write(line);
}

void OutputRouter::notice(std::string_view text) {
  const std::string line = fmt::format("trireme: {}\n", text);
  write_own_line(line);
  write_file(merged_.get(), line);
}

// A full disk must not end the job, and must be said.
void OutputRouter::write_file(File* file, std::string_view bytes) {
  if (file == nullptr || bytes.empty()) return;
  const Status written = file->write(bytes);
  if (written.is_ok() || told_file_error_) return;
  told_file_error_ = true;
  write_own_line(fmt::format("trireme: output files are incomplete from here on: {}\n", written.to_string()));
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
  if (sinks_[0] && !sinks_[0]->closed().is_ok() && !told_closed_) {
    told_closed_ = true;
    // What is in files is not lost, so with them the job goes on.
    if (job_.output_directory.empty()) events_.on_closed(sinks_[0]->closed());
  }
  events_.on_drained();
}

}  // namespace trireme
