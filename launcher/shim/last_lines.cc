#include "launcher/shim/last_lines.h"

namespace trireme {

void LastLines::add(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  // Of a progress line that overwrote itself, the last state.
  if (const std::size_t shown = line.rfind('\r'); shown != std::string_view::npos) line.remove_prefix(shown + 1);
  std::string text(line.substr(0, kLastLineBytes));
  if (line.size() > kLastLineBytes) text += " ...";
  lines_.push_back(std::move(text));
  if (lines_.size() > kLastLines) lines_.pop_front();
}

}  // namespace trireme
