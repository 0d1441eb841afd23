#include <gtest/gtest.h>

#include <vector>

#include <trireme/tensor/shard_spec.h>
#include <trireme/tensor/tensor.h>

namespace trireme {
namespace {

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().to_string(), "[]");
  const Shape shape{4, 256};
  EXPECT_EQ(shape.rank(), 2);
  EXPECT_EQ(shape[1], 256);
  EXPECT_EQ(shape.elements(), 1024);
  EXPECT_EQ(shape.to_string(), "[4, 256]");
  EXPECT_EQ((Shape{3, 0}).elements(), 0);
}

TEST(Shape, ComparesByExtents) {
  const std::vector<std::int64_t> extents = {4, 256};
  EXPECT_EQ(Shape::of(extents), (Shape{4, 256}));
  EXPECT_FALSE((Shape{4}) == (Shape{4, 1}));
  EXPECT_FALSE((Shape{4, 2}) == (Shape{2, 4}));
}

TEST(Tensor, KnowsItsBytes) {
  float data[6] = {};
  const Tensor tensor{data, DataType::f32, {2, 3}};
  EXPECT_EQ(tensor.elements(), 6);
  EXPECT_EQ(tensor.bytes(), 24U);
  EXPECT_EQ(tensor.as<float>(), data);
}

TEST(ShardSpec, WholeIsEverything) {
  const ShardSpec spec = ShardSpec::whole({3, 5}, 1, 4);
  EXPECT_EQ(spec.elements(), 15);
  EXPECT_TRUE(spec.check().is_ok());
  EXPECT_TRUE(ShardSpec::whole({}).check().is_ok());
  EXPECT_TRUE(ShardSpec::whole({0}).check().is_ok());
}

TEST(ShardSpec, ImpossibleOnesAreExplained) {
  const auto bad = [](ShardSpec spec) { return spec.check().code() == StatusCode::invalid_argument; };
  EXPECT_TRUE(bad({{4}, -1, 2, 0, 1}));
  EXPECT_TRUE(bad({{4}, 3, 2, 0, 1}));
  EXPECT_TRUE(bad({{4}, 0, 5, 0, 1}));
  EXPECT_TRUE(bad({{4}, 0, 4, 1, 1}));
  EXPECT_TRUE(bad({{4}, 0, 4, 0, 0}));
  EXPECT_TRUE(bad({{4}, 0, 4, -1, 2}));
  EXPECT_TRUE(bad({{-4}, 0, 0, 0, 1}));
  EXPECT_TRUE(bad({{std::int64_t{1} << 40, std::int64_t{1} << 40}, 0, 1, 0, 1}));
  EXPECT_NE((ShardSpec{{4}, 0, 5, 0, 1}).check().message().find("[0, 5)"), std::string::npos);
}

}  // namespace
}  // namespace trireme
