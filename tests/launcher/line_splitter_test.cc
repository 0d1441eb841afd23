#include "launcher/shim/line_splitter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "launcher/shim/last_lines.h"

namespace trireme {
namespace {

std::vector<std::string> split(const std::vector<std::string>& pieces, std::size_t limit = 100) {
  LineSplitter splitter(limit);
  std::vector<std::string> lines;
  const auto collect = [&](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& piece : pieces) splitter.feed(piece, collect);
  splitter.finish(collect);
  return lines;
}

TEST(LineSplitter, HoldsPartsAndKeepsEmptyLines) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(split({"a", "b\nc\n\n", "d"}), (Lines{"ab", "c", "", "d"}));
  EXPECT_EQ(split({""}), Lines{});
  EXPECT_EQ(split({"\n"}), Lines{""});
  EXPECT_EQ(split({"0123456789abcdef\n"}, 10), (Lines{"0123456789", "abcdef"}));
  EXPECT_EQ(split({"0123456789", "\nnext\n"}, 10), (Lines{"0123456789", "next"}));
  EXPECT_EQ(split({"0123456789\n"}, 10), (Lines{"0123456789"}));
}

TEST(LineSplitter, AnyCutGivesTheSameLines) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = static_cast<int>(random() % 200); i > 0; --i) text += "ab\n\r"[random() % 4];
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = 1 + random() % 20;
      pieces.push_back(text.substr(at, bytes));
      at += bytes;
    }
    const std::size_t limit = 1 + random() % 12;
    EXPECT_EQ(split(pieces, limit), split({text}, limit));
  }
}

TEST(LineSplitter, ProgressIsTheLastTextACarriageReturnCompleted) {
  LineSplitter splitter;
  const auto none = [](std::string_view) { FAIL(); };
  splitter.feed("10%", none);
  EXPECT_EQ(splitter.progress(), "");
  splitter.feed("\r20%\r3", none);
  EXPECT_EQ(splitter.progress(), "20%");
  splitter.drop_replaced();
  EXPECT_EQ(splitter.held(), "20%\r3");
  splitter.feed("0%\r\r", none);
  EXPECT_EQ(splitter.progress(), "30%");
}

TEST(LastLines, KeepsTheEnd) {
  LastLines lines;
  for (int i = 0; i < 50; ++i) lines.add(std::to_string(i));
  lines.add("1%\r2%\r3%\r");
  lines.add(std::string(5'000, 'x'));
  const std::vector<std::string> kept = lines.lines();
  ASSERT_EQ(kept.size(), kLastLines);
  EXPECT_EQ(kept[kept.size() - 3], "49");
  EXPECT_EQ(kept[kept.size() - 2], "3%");
  EXPECT_EQ(kept.back().size(), kLastLineBytes + 4);
}

}  // namespace
}  // namespace trireme
