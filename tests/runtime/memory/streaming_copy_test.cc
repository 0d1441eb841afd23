#include "runtime/memory/api/streaming_copy.h"

#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Every byte arrives and none beside it, wherever both ends lie.
TEST(StreamingCopy, CopiesWhatMemcpyWould) {
  constexpr std::size_t kMargin = 80;
  for (const auto copy : {&streaming_copy, &copy_to_peer}) {
    for (const std::size_t bytes : {0U, 1U, 15U, 63U, 64U, 65U, 127U, 1000U, 3071U, 3072U, 3073U, 70'001U}) {
      for (const std::size_t from : {0U, 1U, 24U, 63U}) {
        for (const std::size_t to : {0U, 1U, 40U, 63U}) {
          std::vector<unsigned char> source(bytes + 2 * kMargin);
          for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 7 + 1);
          std::vector<unsigned char> target(bytes + 2 * kMargin, 0xee);
          copy(target.data() + to, source.data() + from, bytes);
          for (std::size_t i = 0; i < target.size(); ++i) {
            const bool inside = i >= to && i < to + bytes;
            ASSERT_EQ(target[i], inside ? source[from + i - to] : 0xee) << i << " of " << bytes;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
