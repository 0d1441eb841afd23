#include "launcher/shim/line_splitter.h"

namespace trireme {
namespace {

// The text between the last two carriage returns of `text`, or before the only one.
std::string_view last_completed(std::string_view text, std::size_t* begin) {
  while (!text.empty()) {
    const std::size_t end = text.rfind('\r');
    if (end == std::string_view::npos) return {};
    const std::size_t previous = end == 0 ? std::string_view::npos : text.rfind('\r', end - 1);
    *begin = previous == std::string_view::npos ? 0 : previous + 1;
    if (end > *begin) return text.substr(*begin, end - *begin);
    text = text.substr(0, end);
  }
  return {};
}

}  // namespace

void LineSplitter::emit(std::string_view line, const OnLine& on_line) {
  // A newline right after a piece that was cut at the limit ends that line, not a new one.
  if (!(split_ && line.empty())) on_line(line);
  split_ = false;
}

void LineSplitter::feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const bool whole = newline != std::string_view::npos;
    const std::string_view part = bytes.substr(0, newline);
    if (whole && held_.empty() && part.size() <= limit_) {
      emit(part, on_line);
      bytes.remove_prefix(newline + 1);
      continue;
    }
    const std::string_view fitting = part.substr(0, limit_ - held_.size());
    held_ += fitting;
    bytes.remove_prefix(fitting.size());
    if (whole && fitting.size() == part.size()) {
      emit(held_, on_line);
      held_.clear();
      bytes.remove_prefix(1);
    } else if (held_.size() == limit_) {
      on_line(held_);
      held_.clear();
      split_ = true;
    }
  }
}

void LineSplitter::finish(const OnLine& on_line) {
  if (!held_.empty()) emit(held_, on_line);
  held_.clear();
  split_ = false;
}

std::string_view LineSplitter::progress() const {
  std::size_t begin = 0;
  return last_completed(held_, &begin);
}

void LineSplitter::drop_replaced() {
  std::size_t begin = 0;
  if (!last_completed(held_, &begin).empty()) held_.erase(0, begin);
}

}  // namespace trireme
