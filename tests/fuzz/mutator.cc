#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cstring>

namespace trireme::test {

std::string Mutator::junk(std::size_t most_bytes) {
  std::string text(below(most_bytes + 1), '\0');
  for (char& c : text) c = static_cast<char>(random_());
  return text;
}

std::string Mutator::next() {
  std::string text = original();
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
  return text;
}

void Mutator::set_integer(std::string& text) {
  const std::size_t width = std::size_t{1} << below(4);
  if (text.size() < width) return;
  const std::uint64_t size = text.size();
  const std::uint64_t edges[] = {0,
                                 1,
                                 2,
                                 0x7f,
                                 0x80,
                                 0xff,
                                 0xffff,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 size,
                                 size + 1,
                                 size - 1,
                                 17,
                                 256,
                                 ~std::uint64_t{0},
                                 std::uint64_t{1} << 63};
  const std::uint64_t value = edges[below(std::size(edges))];
  std::memcpy(text.data() + below(text.size() - width + 1), &value, width);  // Little-endian hosts, as the formats are.
}

void Mutator::change(std::string& text) {
  const std::size_t at = text.empty() ? 0 : below(text.size());
  const std::size_t length = text.empty() ? 0 : 1 + below(std::min<std::size_t>(text.size() - at, 16));
  switch (below(8)) {
    case 0:
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      return;
    case 2:
      return set_integer(text);
    case 3:
      text.resize(at);
      return;
    case 4:
      text += junk(32);
      return;
    case 5:
      text.erase(at, length);
      return;
    case 6:
      text.insert(at, text.substr(at, length));
      return;
    default: {
      const std::string& other = original();
      const std::size_t from = other.empty() ? 0 : below(other.size());
      text.replace(at, length, other.substr(from, length));
      return;
    }
  }
}

}  // namespace trireme::test
