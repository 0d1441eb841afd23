// LineSplitter: bytes in, whole lines out.
//
// What has no newline yet is held, so that a line never leaves in two parts; a line
// longer than the limit leaves in pieces of that size. Thread safety: none.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace trireme {

// Lines up to this long stay whole on their way through the launcher.
inline constexpr std::size_t kMaxLineBytes = std::size_t{2} << 20;

class LineSplitter {
 public:
  // Without the newline; valid during the call.
  using OnLine = std::function<void(std::string_view line)>;

  explicit LineSplitter(std::size_t max_line_bytes = kMaxLineBytes) : limit_(max_line_bytes) {}

  void feed(std::string_view bytes, const OnLine& on_line);
  // The stream has ended: what is held is its last line.
  void finish(const OnLine& on_line);
  std::string_view held() const { return held_; }

  // For terminals, where text after a carriage return replaces text before it: the last
  // text in what is held that a carriage return has completed; "" when there is none.
  std::string_view progress() const;
  // Drops from what is held all that such a text has replaced.
  void drop_replaced();

 private:
  void emit(std::string_view line, const OnLine& on_line);
  std::size_t limit_;
  std::string held_;
  bool split_ = false;  // The previous piece left without a newline.
};

}  // namespace trireme
