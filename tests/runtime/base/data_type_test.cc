#include <trireme/base/data_type.h>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace trireme {
namespace {

TEST(DataType, EveryTypeHasItsOwnNameThatParsesBack) {
  std::set<std::string> names;
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    names.insert(std::string(to_string(type)));
    const auto parsed = parse_data_type(to_string(type));
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, type);
    EXPECT_GT(size_of(type), 0u);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kDataTypeCount));
  EXPECT_EQ(size_of(static_cast<DataType>(kDataTypeCount)), 0u) << "kDataTypeCount is the number of types";
}

TEST(DataType, SizesFollowTheNames) {
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    const std::string name(to_string(type));
    const std::size_t digits = name.find_first_of("0123456789");
    const std::size_t bits = digits == std::string::npos ? 8 : std::stoul(name.substr(digits));
    EXPECT_EQ(size_of(type) * 8, bits) << name;
    EXPECT_EQ(is_floating_point(type), name.find('f') != std::string::npos) << name;
    EXPECT_EQ(is_low_precision(type), is_floating_point(type) && bits < 32) << name;
  }
}

TEST(DataType, TakesTheNamesOfNcclTests) {
  const struct {
    const char* name;
    DataType type;
  } kCases[] = {{"float", DataType::f32},      {"double", DataType::f64},      {"half", DataType::f16},
                {"bfloat16", DataType::bf16},  {"int8", DataType::i8},         {"uint8", DataType::u8},
                {"int32", DataType::i32},      {"uint32", DataType::u32},      {"int64", DataType::i64},
                {"uint64", DataType::u64},     {"fp8e4m3", DataType::f8_e4m3}, {"fp8e5m2", DataType::f8_e5m2},
                {"f8e4m3", DataType::f8_e4m3}, {"f8e5m2", DataType::f8_e5m2}};
  for (const auto& expected : kCases) {
    const auto parsed = parse_data_type(expected.name);
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, expected.type) << expected.name;
  }
}

TEST(ReduceOp, EveryOperationHasANameThatParsesBack) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    const auto parsed = parse_reduce_op(to_string(op));
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, op);
  }
  EXPECT_EQ(*parse_reduce_op("product"), ReduceOp::product);
  EXPECT_EQ(*parse_reduce_op("average"), ReduceOp::average);
}

TEST(DataType, UnknownNamesAreRefusedWithTheListOfKnownOnes) {
  const auto type = parse_data_type("f33");
  ASSERT_FALSE(type.is_ok());
  EXPECT_EQ(type.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(type.status().message().find("'f33'"), std::string::npos);
  for (int i = 0; i < kDataTypeCount; ++i) {
    const std::string name(to_string(static_cast<DataType>(i)));
    EXPECT_NE(type.status().message().find(name), std::string::npos) << name;
  }
  const auto op = parse_reduce_op("mean");
  ASSERT_FALSE(op.is_ok());
  EXPECT_NE(op.status().message().find("avg"), std::string::npos);
}

}  // namespace
}  // namespace trireme
