#include <trireme/base/wire.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

namespace trireme {
namespace {

using Field =
    std::variant<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int64_t, double, std::string>;

Field random_field(std::mt19937_64& random) {
  switch (random() % 7) {
    case 0:
      return static_cast<std::uint8_t>(random());
    case 1:
      return static_cast<std::uint16_t>(random());
    case 2:
      return static_cast<std::uint32_t>(random());
    case 3:
      return static_cast<std::uint64_t>(random());
    case 4:
      return static_cast<std::int64_t>(random());
    case 5:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100);
    default: {
      std::string text(random() % 40, '\0');
      for (char& c : text) c = static_cast<char>(random());
      return text;
    }
  }
}

struct Writer {
  WireWriter& out;
  void operator()(std::uint8_t v) const { out.u8(v); }
  void operator()(std::uint16_t v) const { out.u16(v); }
  void operator()(std::uint32_t v) const { out.u32(v); }
  void operator()(std::uint64_t v) const { out.u64(v); }
  void operator()(std::int64_t v) const { out.i64(v); }
  void operator()(double v) const { out.f64(v); }
  void operator()(const std::string& v) const { out.bytes(v); }
};

// Reads a field of the same kind as the one given.
struct Reader {
  WireReader& in;
  Field operator()(std::uint8_t) const { return in.u8(); }
  Field operator()(std::uint16_t) const { return in.u16(); }
  Field operator()(std::uint32_t) const { return in.u32(); }
  Field operator()(std::uint64_t) const { return in.u64(); }
  Field operator()(std::int64_t) const { return in.i64(); }
  Field operator()(double) const { return in.f64(); }
  Field operator()(const std::string&) const { return in.string(); }
};

TEST(Wire, IsLittleEndianWithLengthPrefixes) {
  WireWriter writer;
  writer.u8(0x01);
  writer.u16(0x0302);
  writer.u32(0x07060504);
  writer.u64(0x0f0e0d0c0b0a0908);
  writer.bytes("hi");
  std::string expected;
  for (char c = 1; c <= 15; ++c) expected += c;
  expected += std::string("\x02\0\0\0hi", 6);
  EXPECT_EQ(writer.data(), expected);
  EXPECT_EQ(writer.take(), expected);
}

TEST(Wire, RandomSequencesOfFieldsComeBackAsWritten) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<Field> fields(random() % 20);
    WireWriter writer;
    for (Field& field : fields) {
      field = random_field(random);
      std::visit(Writer{writer}, field);
    }
    const std::string data = writer.take();
    WireReader reader(data);
    for (const Field& field : fields) ASSERT_EQ(std::visit(Reader{reader}, field), field);
    EXPECT_TRUE(reader.finished());
    EXPECT_EQ(reader.remaining(), 0u);
  }
}

// Every proper prefix of a message fails, at the field that is cut and ever after.
TEST(Wire, EveryTruncationIsNoticed) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<Field> fields(1 + random() % 8);
    WireWriter writer;
    for (Field& field : fields) {
      field = random_field(random);
      std::visit(Writer{writer}, field);
    }
    for (std::size_t size = 0; size < writer.data().size(); ++size) {
      const std::string cut(writer.data(), 0, size);  // Its own allocation, so that sanitizers see an overrun.
      WireReader reader(cut);
      for (const Field& field : fields) std::visit(Reader{reader}, field);
      ASSERT_TRUE(reader.failed());
      ASSERT_FALSE(reader.finished());
      ASSERT_EQ(reader.u64(), 0u);
      ASSERT_TRUE(reader.bytes().empty());
    }
  }
}

TEST(Wire, RandomBytesReadInRandomOrderStayInBounds) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string noise(random() % 64, '\0');
    for (char& c : noise) c = static_cast<char>(random() % 3 == 0 ? random() : 0);
    WireReader reader(noise);
    std::size_t consumed_at_most = noise.size();
    for (int i = 0; i < 20; ++i) {
      const Field field = std::visit(Reader{reader}, random_field(random));
      if (const auto* text = std::get_if<std::string>(&field)) {
        ASSERT_LE(text->size(), consumed_at_most);
      }
      ASSERT_LE(reader.remaining(), consumed_at_most);
      consumed_at_most = reader.remaining();
    }
  }
}

TEST(Wire, ALengthThatExceedsTheInputFailsWithoutAllocating) {
  const std::string data(
      "\xff\xff\xff\xff"
      "abc",
      7);
  WireReader reader(data);
  EXPECT_TRUE(reader.bytes().empty());
  EXPECT_TRUE(reader.failed());
}

TEST(Wire, KeepsTheBitsOfSpecialNumbers) {
  WireWriter writer;
  writer.f64(-0.0);
  writer.f64(std::numeric_limits<double>::quiet_NaN());
  writer.f64(std::numeric_limits<double>::denorm_min());
  writer.i64(std::numeric_limits<std::int64_t>::min());
  WireReader reader(writer.data());
  EXPECT_TRUE(std::signbit(reader.f64()));
  EXPECT_TRUE(std::isnan(reader.f64()));
  EXPECT_EQ(reader.f64(), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(reader.i64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(reader.finished());
}

TEST(Wire, UnreadBytesAreNotFinished) {
  WireReader reader("ab");
  reader.u8();
  EXPECT_FALSE(reader.finished());
  EXPECT_FALSE(reader.failed());
  EXPECT_EQ(reader.remaining(), 1u);
}

}  // namespace
}  // namespace trireme
