// Gather, scatter, all-to-all, uneven parts, custom and scaled reductions, groups: with
// ranks as threads, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include <trireme/base/float_types.h>
#include <trireme/collectives/group.h>

#include "tests/collectives/reference.h"
#include "tests/collectives/thread_ranks.h"

namespace trireme {
namespace {

using test::patient;
using test::run_ranks;

constexpr ReduceOp kSum = ReduceOp::sum;

// Part r of `counts`: where it begins.
std::size_t before(const std::vector<std::size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}
std::size_t total(const std::vector<std::size_t>& counts) {
  return before(counts, static_cast<int>(counts.size()));
}

// Some parts are empty, the others of all sizes.
std::vector<std::size_t> some_counts(int ranks, std::size_t scale) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(static_cast<std::size_t>(rank * 7 % 5) * scale);
  return counts;
}

class Calls : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, Calls, testing::Values(1, 2, 3, 5, 8));

void check_gather_and_scatter(Communicator& c, DataType type, std::size_t count, bool in_place) {
  const auto n = static_cast<std::size_t>(c.size());
  const int root = static_cast<int>(count) % c.size();
  const bool at_root = c.rank() == root;
  const std::size_t width = size_of(type);
  auto own = test::make_input(type, kSum, c.rank(), count);
  std::vector<std::byte> all(at_root ? own.size() * n : 0);
  std::byte* place = all.data() + static_cast<std::size_t>(root) * own.size();
  if (at_root && in_place && count > 0) std::memcpy(place, own.data(), own.size());
  EXPECT_OK(c.gather(at_root && in_place ? place : own.data(), at_root ? all.data() : nullptr, count, type, root));
  for (int from = 0; at_root && from < c.size(); ++from) {
    const std::byte* part = all.data() + static_cast<std::size_t>(from) * own.size();
    EXPECT_EQ(test::compare_copied(type, kSum, from, part, count), "");
  }
  auto parts = test::make_input(type, kSum, root, count * n);
  std::vector<std::byte> mine(own.size());
  std::byte* target = at_root && in_place ? parts.data() + static_cast<std::size_t>(root) * count * width : mine.data();
  EXPECT_OK(c.scatter(at_root ? parts.data() : nullptr, target, count, type, root));
  EXPECT_EQ(test::compare_copied(type, kSum, root, target, count, static_cast<std::size_t>(c.rank()) * count), "");
}

TEST_P(Calls, GatherScatterAllToAll) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    const auto n = static_cast<std::size_t>(c.size());
    std::size_t turn = 0;
    for (std::size_t count : {0u, 1u, 3u, 100u, 20'000u}) {
      const auto type = static_cast<DataType>(turn++ * 3 % kDataTypeCount);
      check_gather_and_scatter(c, type, count, turn % 2 == 0);
      const auto input = test::make_input(type, kSum, c.rank(), count * n);
      std::vector<std::byte> output(input.size());
      EXPECT_OK(c.all_to_all(input.data(), output.data(), count, type));
      for (int from = 0; from < c.size(); ++from) {
        const std::byte* part = output.data() + static_cast<std::size_t>(from) * count * size_of(type);
        EXPECT_EQ(test::compare_copied(type, kSum, from, part, count, static_cast<std::size_t>(c.rank()) * count), "");
      }
    }
  });
}

TEST_P(Calls, UnevenParts) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    for (std::size_t scale : {0u, 1u, 13u, 5000u}) {
      const auto counts = some_counts(c.size(), scale);
      const std::size_t own = counts[static_cast<std::size_t>(c.rank())];
      const std::size_t all = total(counts);
      const std::size_t first = before(counts, c.rank());
      const int root = c.size() - 1;
      std::vector<float> mine(own), whole(all), sum(own);
      for (std::size_t i = 0; i < own; ++i) mine[i] = static_cast<float>(c.rank() * 1000) + static_cast<float>(i % 997);
      const auto expect_whole = [&](const char* what) {
        for (int from = 0; from < c.size(); ++from) {
          const std::size_t at = before(counts, from);
          for (std::size_t i = 0; i < counts[static_cast<std::size_t>(from)]; ++i) {
            ASSERT_EQ(whole[at + i], static_cast<float>(from * 1000) + static_cast<float>(i % 997)) << what << " " << i;
          }
        }
      };
      EXPECT_OK(c.all_gather_v(mine.data(), whole.data(), counts, DataType::f32));
      expect_whole("all_gather_v");
      std::fill(whole.begin(), whole.end(), -1.0f);
      std::copy(mine.begin(), mine.end(), whole.begin() + static_cast<std::ptrdiff_t>(first));
      EXPECT_OK(c.all_gather_v(whole.data() + first, whole.data(), counts, DataType::f32));  // In place.
      expect_whole("all_gather_v in place");
      EXPECT_OK(c.reduce_scatter_v(whole.data(), sum.data(), counts, DataType::f32, kSum));
      for (std::size_t i = 0; i < own; ++i) EXPECT_EQ(sum[i], mine[i] * static_cast<float>(c.size()));
      std::vector<float> at_root(c.rank() == root ? all : 0);
      EXPECT_OK(c.gather_v(mine.data(), at_root.data(), counts, DataType::f32, root));
      if (c.rank() == root) {
        EXPECT_EQ(at_root, whole);
      }
      std::fill(sum.begin(), sum.end(), 0.0f);
      EXPECT_OK(c.scatter_v(at_root.data(), sum.data(), counts, DataType::f32, root));
      EXPECT_EQ(sum, mine);
    }
  });
}

// Rank s sends (s + 2 r) % 4 * scale elements to rank r.
TEST_P(Calls, UnevenAllToAll) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    for (std::size_t scale : {0u, 1u, 700u, 9000u}) {
      const auto between = [&](int s, int r) { return static_cast<std::size_t>((s + 2 * r) % 4) * scale; };
      std::vector<std::size_t> sends, receives;
      std::vector<std::int32_t> input;
      for (int peer = 0; peer < c.size(); ++peer) {
        sends.push_back(between(c.rank(), peer));
        receives.push_back(between(peer, c.rank()));
        for (std::size_t i = 0; i < sends.back(); ++i) input.push_back(c.rank() * 100 + peer);
      }
      std::vector<std::int32_t> output(total(receives), -1);
      EXPECT_OK(c.all_to_all_v(input.data(), sends, output.data(), receives, DataType::i32));
      std::size_t at = 0;
      for (int from = 0; from < c.size(); ++from) {
        for (std::size_t i = 0; i < receives[static_cast<std::size_t>(from)]; ++i) {
          ASSERT_EQ(output[at++], from * 100 + c.rank());
        }
      }
    }
  });
}

// ---- reductions beyond the named ones ----

// Permutations of 8 things, packed in 24 bits: composing them is associative and does not
// commute.
std::int32_t compose(std::int32_t left, std::int32_t right) {
  std::int32_t result = 0;
  for (int i = 0; i < 8; ++i) result |= ((left >> (3 * ((right >> (3 * i)) & 7))) & 7) << (3 * i);
  return result;
}

std::int32_t permutation(int rank, std::size_t index) {
  std::int32_t p[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::size_t seed = index * 31 + static_cast<std::size_t>(rank) * 17 + 5;
  for (std::size_t i = 7; i > 0; --i, seed = seed * 13 + 7) std::swap(p[i], p[seed % (i + 1)]);
  std::int32_t packed = 0;
  for (int i = 0; i < 8; ++i) packed |= p[i] << (3 * i);
  return packed;
}

Reduction composition() {
  CustomReduction custom;
  custom.name = "compose permutations";
  custom.commutative = false;
  custom.combine = [](void* out, const void* left, const void* right, std::size_t count) {
    const auto* a = static_cast<const std::int32_t*>(left);
    const auto* b = static_cast<const std::int32_t*>(right);
    for (std::size_t i = 0; i < count; ++i) static_cast<std::int32_t*>(out)[i] = compose(a[i], b[i]);
  };
  return Reduction::custom(custom);
}

TEST_P(Calls, FunctionsThatDoNotCommuteKeepTheOrderOfRanks) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    const Reduction reduction = composition();
    for (std::size_t count : {1u, 10u, 3000u, 200'000u}) {
      std::vector<std::int32_t> input(count * static_cast<std::size_t>(c.size())), output(count, -1);
      for (std::size_t i = 0; i < input.size(); ++i) input[i] = permutation(c.rank(), i);
      const auto expected = [&](std::size_t index) {
        std::int32_t value = permutation(0, index);
        for (int rank = 1; rank < c.size(); ++rank) value = compose(value, permutation(rank, index));
        return value;
      };
      EXPECT_OK(c.all_reduce(input.data(), output.data(), count, DataType::i32, reduction));
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(output[i], expected(i)) << i;
      EXPECT_OK(c.reduce_scatter(input.data(), output.data(), count, DataType::i32, reduction));
      const std::size_t first = count * static_cast<std::size_t>(c.rank());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(output[i], expected(first + i)) << i;
      const int root = static_cast<int>(count) % c.size();
      EXPECT_OK(c.reduce(input.data(), output.data(), count, DataType::i32, reduction, root));
      for (std::size_t i = 0; c.rank() == root && i < count; ++i) ASSERT_EQ(output[i], expected(i)) << i;
    }
  });
}

TEST_P(Calls, CommutingFunctions) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    CustomReduction custom;
    custom.name = "bitwise xor";
    custom.combine = [](void* out, const void* left, const void* right, std::size_t count) {
      const auto* a = static_cast<const std::uint64_t*>(left);
      const auto* b = static_cast<const std::uint64_t*>(right);
      for (std::size_t i = 0; i < count; ++i) static_cast<std::uint64_t*>(out)[i] = a[i] ^ b[i];
    };
    std::vector<std::uint64_t> data(40'001);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::uint64_t{1} << ((c.rank() + static_cast<int>(i)) % 64);
    EXPECT_OK(c.all_reduce(data.data(), data.data(), data.size(), DataType::u64, Reduction::custom(custom)));
    for (std::size_t i = 0; i < data.size(); ++i) {
      std::uint64_t expected = 0;
      for (int rank = 0; rank < c.size(); ++rank) expected ^= std::uint64_t{1} << ((rank + static_cast<int>(i)) % 64);
      ASSERT_EQ(data[i], expected);
    }
  });
}

TEST_P(Calls, ScaledSums) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    for (int t = 0; t < kDataTypeCount; ++t) {
      const auto type = static_cast<DataType>(t);
      if (type == DataType::boolean) continue;
      // Exact in f32, so that one rounding at the end is all that may happen.
      const double factor = c.rank() % 3 + 1;
      const std::size_t count = 1000 + static_cast<std::size_t>(t);
      std::vector<std::byte> input(count * size_of(type)), output(input.size());
      for (std::size_t i = 0; i < count; ++i) test::store(type, input.data(), i, 1 + static_cast<double>(i % 2));
      EXPECT_OK(c.all_reduce(input.data(), output.data(), count, type, Reduction::scaled_sum(factor)));
      double sum = 0;
      for (int rank = 0; rank < c.size(); ++rank) sum += rank % 3 + 1;
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(test::load(type, output.data(), i), test::rounded(type, sum * (1 + static_cast<double>(i % 2))))
            << to_string(type);
      }
      const int root = c.size() / 2;
      EXPECT_OK(c.reduce(input.data(), input.data(), count, type, Reduction::scaled_sum(factor), root));
      if (c.rank() == root) {
        EXPECT_EQ(input, output);
      }
    }
    std::int32_t one = 1;
    EXPECT_EQ(c.all_reduce(&one, &one, 1, DataType::i32, Reduction::scaled_sum(0.5)).code(),
              StatusCode::invalid_argument);
  });
}

// ---- groups ----

TEST_P(Calls, AGroupMovesMessagesInAnyOrder) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    const std::size_t count = 30'000;  // More than fits any buffer on the way.
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<std::vector<float>> out, in;
      for (int peer = 0; peer < c.size(); ++peer) {
        out.emplace_back(count, static_cast<float>(c.rank() * 10 + peer));
        in.emplace_back(count, -1.0f);
      }
      {
        Group group(c);
        for (int d = 0; d < c.size(); ++d) {  // All sends first, also to oneself.
          EXPECT_OK(c.send(out[static_cast<std::size_t>(d)].data(), count, DataType::f32, d));
        }
        for (int d = c.size() - 1; d >= 0; --d) {
          EXPECT_OK(c.receive(in[static_cast<std::size_t>(d)].data(), count, DataType::f32, d));
        }
        EXPECT_OK(group.end());
      }
      for (int peer = 0; peer < c.size(); ++peer) {
        EXPECT_EQ(in[static_cast<std::size_t>(peer)],
                  std::vector<float>(count, static_cast<float>(peer * 10 + c.rank())));
      }
    }
  });
}

// Every rank calls the communicators in an order of its own, collectives and messages mixed.
TEST_P(Calls, AGroupOfSeveralCommunicatorsHasNoOrder) {
  run_ranks(GetParam(), patient(), [](Communicator& c) {
    std::vector<std::shared_ptr<Communicator>> all;
    for (int i = 0; i < 3; ++i) all.push_back(c.split(0, c.rank()).value());
    const std::size_t count = 50'000;
    for (int turn = 0; turn < 5; ++turn) {
      std::vector<std::vector<std::int64_t>> data(3, std::vector<std::int64_t>(count, c.rank() + 1));
      std::int64_t out = c.rank(), in = -1;
      Group group;
      for (int i = 0; i < 3; ++i) {
        const auto which = static_cast<std::size_t>((i + c.rank() + turn) % 3);
        Communicator& mine = *all[which];
        group.add(mine);
        EXPECT_OK(mine.all_reduce(data[which].data(), data[which].data(), count, DataType::i64, kSum));
        if (which != 1) continue;
        EXPECT_OK(mine.send(&out, 1, DataType::i64, (c.rank() + 1) % c.size()));
        EXPECT_OK(mine.receive(&in, 1, DataType::i64, (c.rank() + c.size() - 1) % c.size()));
      }
      EXPECT_OK(group.end());
      const std::int64_t sum = std::int64_t{c.size()} * (c.size() + 1) / 2;
      for (const auto& each : data) EXPECT_EQ(each, std::vector<std::int64_t>(count, sum));
      EXPECT_EQ(in, (c.rank() + c.size() - 1) % c.size());
    }
  });
}

TEST(Groups, RefuseAtTheCallAndReportAtTheEnd) {
  run_ranks(2, patient(), [](Communicator& c) {
    float value = 1;
    {
      Group group(c);
      EXPECT_EQ(c.send(&value, 1, DataType::f32, 9).code(), StatusCode::invalid_argument);
      EXPECT_OK(c.barrier());
      EXPECT_EQ(c.split(0, 0).status().code(), StatusCode::invalid_argument);
      EXPECT_EQ(group.end().code(), StatusCode::invalid_argument);
      EXPECT_OK(group.end());  // Empty now.
    }
    // A blocking call again, unless the other rank is ahead already.
    const Status again = c.barrier();
    EXPECT_TRUE(again.is_ok() || again.code() == StatusCode::aborted) << again.to_string();
    if (c.rank() == 0) c.abort("enough");
    Group group(c);
    (void)c.barrier();
    EXPECT_EQ(group.end().code(), StatusCode::aborted);
  });
}

TEST(Groups, OneRankAlone) {
  run_ranks(1, patient(), [](Communicator& c) {
    float out = 3, in = 0;
    Group group(c);
    EXPECT_OK(c.receive(&in, 1, DataType::f32, 0));
    EXPECT_OK(c.send(&out, 1, DataType::f32, 0));
    EXPECT_OK(group.end());
    EXPECT_EQ(in, 3.0f);
    group.add(c);
    EXPECT_OK(c.send(&out, 1, DataType::f32, 0));
    EXPECT_EQ(group.end().code(), StatusCode::invalid_argument);  // Nobody will receive it.
  });
}

// ---- what ranks disagree about ----

}  // namespace
}  // namespace trireme
