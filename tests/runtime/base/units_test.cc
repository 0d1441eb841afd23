#include <trireme/base/units.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace trireme {
namespace {

TEST(ParseBytes, TakesDigitsAndUnitsOf1024) {
  const struct {
    const char* text;
    std::uint64_t bytes;
  } kCases[] = {{"0", 0},
                {"8", 8},
                {"8b", 8},
                {"8B", 8},
                {"64K", 64 * kKiB},
                {"64k", 64 * kKiB},
                {"64kb", 64 * kKiB},
                {"64KiB", 64 * kKiB},
                {"1M", kMiB},
                {"4MiB", 4 * kMiB},
                {"100mb", 100 * kMiB},
                {"2G", 2 * kGiB},
                {"2GIB", 2 * kGiB},
                {"3T", 3 * 1024 * std::uint64_t{kGiB}},
                {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
                {"16777215T", std::uint64_t{16777215} << 40}};
  for (const auto& expected : kCases) {
    const auto bytes = parse_bytes(expected.text);
    ASSERT_TRUE(bytes.is_ok()) << bytes.status().to_string();
    EXPECT_EQ(*bytes, expected.bytes) << expected.text;
  }
}

TEST(ParseBytes, RefusesWhatIsNotASizeAndNamesIt) {
  for (const char* text :
       {"", "K", "-1", "+1", " 1", "1 ", "1 K", "1.5G", "0x10", "1Q", "1KK", "1Ki", "1KiBs", "b", "1bb", "1\xc3\xa4"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.is_ok()) << text;
    EXPECT_EQ(bytes.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(bytes.status().message().find("'" + std::string(text) + "'"), std::string::npos);
    EXPECT_NE(bytes.status().message().find("64K"), std::string::npos) << "the message shows a form that works";
  }
}

TEST(ParseBytes, SaysThatAnOverflowIsOne) {
  for (const char* text : {"18446744073709551616", "99999999999999999999999", "16777216T", "18446744073709551615K"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.is_ok()) << text;
    EXPECT_EQ(bytes.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(bytes.status().message().find("2^64"), std::string::npos) << bytes.status().message();
  }
}

TEST(FormatBytes, PicksTheUnitThatKeepsTheNumberBelow1024) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(64 * kMiB), "64 MiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1 MiB") << "rounding must not print 1024.0 KiB";
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16 EiB");
}

// A printed size, read again, is the size itself up to the one digit that is printed.
TEST(FormatBytes, NeverPrintsANumberOf1024OrMore) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bytes = random() >> (random() % 64);
    const std::string text = format_bytes(bytes);
    const double number = std::stod(text);
    EXPECT_LT(number, 1024.0) << text;
    double unit = 1;
    for (const char* name : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
      unit *= 1024;
      if (text.find(name) != std::string::npos) {
        EXPECT_NEAR(number * unit, static_cast<double>(bytes), 0.0501 * unit);
      }
    }
  }
}

TEST(FormatDuration, ReadsWellAtEveryScale) {
  EXPECT_EQ(format_duration_ms(0), "0 ms");
  EXPECT_EQ(format_duration_ms(850), "850 ms");
  EXPECT_EQ(format_duration_ms(999), "999 ms");
  EXPECT_EQ(format_duration_ms(1000), "1.0 s");
  EXPECT_EQ(format_duration_ms(12'300), "12.3 s");
  EXPECT_EQ(format_duration_ms(59'940), "59.9 s");
  EXPECT_EQ(format_duration_ms(59'960), "1 min 00 s") << "rounding must not print 60.0 s";
  EXPECT_EQ(format_duration_ms(245'000), "4 min 05 s");
  EXPECT_EQ(format_duration_ms(3'599'999), "59 min 59 s");
  EXPECT_EQ(format_duration_ms(7'800'000), "2 h 10 min");
  EXPECT_EQ(format_duration_ms(360'000'000), "100 h 00 min");
}

}  // namespace
}  // namespace trireme
