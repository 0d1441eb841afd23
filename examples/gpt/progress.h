// What a person sees of a run: one line that rewrites itself on a terminal, plain lines
// every few seconds elsewhere.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::gpt {

class Progress {
 public:
  // Quiet: shows nothing (ranks other than 0).
  Progress(bool quiet, std::int64_t first_step, std::int64_t last_step);

  void step(std::int64_t step, double loss, double tokens_per_second);
  // A line of its own between progress lines.
  void say(const std::string& line);
  // Ends the line that rewrites itself.
  void finish();

 private:
  std::string time_left(std::int64_t step, std::uint64_t now_ns) const;
  bool quiet_;
  bool terminal_;
  bool line_open_ = false;
  std::int64_t first_step_, last_step_;
  std::uint64_t started_ns_;
  std::uint64_t shown_ns_ = 0;
};

}  // namespace trireme::gpt
