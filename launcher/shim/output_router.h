// OutputRouter: where the ranks' output goes.
//
// Each stream's bytes go as they are to its own file (with an output folder), and line
// by line, tagged "host:rank ", to the launcher's stream of the same name and to the
// merged file; without tags the launcher's stream gets the bytes as they come. On a
// terminal tags are coloured by rank, and text that a carriage return completed is shown
// as a progress line below the others: that of rank 0 only.
// Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

#include "launcher/protocol/messages.h"
#include "launcher/shim/last_lines.h"
#include "launcher/shim/line_splitter.h"
#include "launcher/shim/output_sink.h"
#include "runtime/platform/api/files.h"

namespace trireme {

enum class OutputStream { out, err };

class OutputRouter {
 public:
  struct Events {
    std::function<void()> on_drained;                  // congested() and flushed() may have changed.
    std::function<void(const Status& why)> on_closed;  // Standard output cannot be written any more.
  };
  // Errors: what opening the merged file says.
  static Result<std::unique_ptr<OutputRouter>> create(EventLoop& loop, const JobSpec& job, Events events);

  // Opens the ranks' files of this attempt and forgets the last lines of the one before.
  Status begin_attempt(int attempt);
  // `local` is the rank's position in JobSpec::ranks.
  void write(int local, OutputStream stream, std::string_view bytes);
  void end_of_stream(int local, OutputStream stream);
  // A line of our own, on standard error and in the merged file.
  void notice(std::string_view text);

  std::vector<std::string> last_lines(int local) const;
  // Readers are far behind: read no more from the ranks until on_drained.
  bool congested() const;
  // Whether any of the output files lacks something.
  bool lost_files() const { return told_file_error_; }
  bool flushed() const;

 private:
  struct RankOutput {
    LineSplitter splitter[2];
    std::unique_ptr<File> file[2];
    LastLines last_lines;
  };
  // The whole lines among some bytes of one stream, as each destination wants them.
  struct Lines {
    void add(std::string_view line);
    LastLines* last_lines = nullptr;
    bool terminal = false;
    std::string plain_tag;
    std::string shown_tag;
    std::string shown;
    std::string merged;
  };
  OutputRouter(const JobSpec& job, Events events) : job_(job), events_(std::move(events)) {}
  void open_sinks(EventLoop& loop);
  OutputSink& sink(OutputStream stream);
  std::string tag(int local, bool coloured) const;
  Lines lines_for(int local, OutputStream stream);
  void deliver(int local, OutputStream stream, const Lines& lines);
  std::string next_progress(int local, OutputStream stream);
  void write_terminal(OutputStream stream, std::string_view lines, const std::string& progress);
  void write_own_line(std::string_view line);
  void write_file(File* file, std::string_view bytes);
  void on_sink_change();

  const JobSpec& job_;
  Events events_;
  std::unique_ptr<OutputSink> sinks_[2];  // The second is empty when both are one stream.
  std::unique_ptr<File> merged_;
  std::vector<RankOutput> ranks_;
  std::string progress_;  // On the terminal now, "" when none.
  OutputStream progress_owner_ = OutputStream::out;
  bool coloured_ = false;
  bool told_closed_ = false;
  bool told_file_error_ = false;
};

// "D/rank-3.out"; of later attempts "D/rank-3.attempt-2.out".
std::string rank_file_path(const std::string& folder, int rank, int attempt, OutputStream stream);

}  // namespace trireme
