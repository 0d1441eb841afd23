// A rank of backend_test: every call of a communicator on another backend, against the
// reference. Prints what is wrong; exit code 0 when nothing is.
//   backend_rank BACKEND
#include <cstdio>
#include <functional>
#include <string>

#include <trireme/collectives/communicator.h>
#include <trireme/collectives/group.h>

#include "tests/collectives/reference.h"

namespace trireme::test {
namespace {

using Bytes = std::vector<std::byte>;
int failures = 0;

void expect(const std::string& wrong, const std::string& what) {
  if (wrong.empty()) return;
  ++failures;
  std::printf("%s: %s\n", what.c_str(), wrong.c_str());
}

std::string words(const Status& status) {
  return status.is_ok() ? "" : status.to_string();
}

std::string refusal(const Status& status, const std::string& part) {
  const bool right = status.code() == StatusCode::unsupported && status.message().find(part) != std::string::npos;
  return right ? "" : "expected a refusal with \"" + part + "\", got " + status.to_string();
}

std::string differs(const Bytes& got, const Bytes& expected) {
  return got == expected ? "" : "the bytes differ";
}

Bytes inputs_of_all(DataType type, int ranks, std::size_t count) {
  Bytes all;
  for (int rank = 0; rank < ranks; ++rank) {
    const Bytes part = make_input(type, ReduceOp::sum, rank, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void check_reductions(Communicator& c, DataType type, ReduceOp op, std::size_t count) {
  const std::string what = std::string(to_string(type)) + " " + std::string(to_string(op));
  const int ranks = c.size();
  const auto parts = static_cast<std::size_t>(ranks);
  Bytes in = make_input(type, op, c.rank(), count * parts);
  Bytes out(in.size());
  expect(words(c.all_reduce(in.data(), out.data(), count, type, op)), "all_reduce " + what);
  expect(compare_reduced(type, op, ranks, out.data(), count), "all_reduce " + what);
  expect(words(c.reduce(in.data(), out.data(), count, type, op, ranks - 1)), "reduce " + what);
  if (c.rank() == ranks - 1) expect(compare_reduced(type, op, ranks, out.data(), count), "reduce " + what);
  const std::size_t own = count * static_cast<std::size_t>(c.rank());
  std::byte* in_place = in.data() + own * size_of(type);
  expect(words(c.reduce_scatter(in.data(), in_place, count, type, op)), "reduce_scatter " + what);
  expect(compare_reduced(type, op, ranks, in_place, count, own), "reduce_scatter " + what);
  Bytes same = make_input(type, op, c.rank(), count);
  expect(words(c.all_reduce(same.data(), same.data(), count, type, op)), "all_reduce in place " + what);
  expect(compare_reduced(type, op, ranks, same.data(), count), "all_reduce in place " + what);
}

void check_moves(Communicator& c, DataType type, std::size_t count) {
  const std::string what(to_string(type));
  const auto parts = static_cast<std::size_t>(c.size());
  const Bytes own = make_input(type, ReduceOp::sum, c.rank(), count);
  const Bytes all = inputs_of_all(type, c.size(), count);
  Bytes part(own.size());
  expect(words(c.broadcast(own.data(), part.data(), count, type, 0)), "broadcast " + what);
  expect(compare_copied(type, ReduceOp::sum, 0, part.data(), count), "broadcast " + what);
  Bytes gathered(all.size());
  expect(words(c.all_gather(own.data(), gathered.data(), count, type)), "all_gather " + what);
  expect(differs(gathered, all), "all_gather " + what);
  Bytes at_root(all.size());
  expect(words(c.gather(own.data(), at_root.data(), count, type, 0)), "gather " + what);
  if (c.rank() == 0) expect(differs(at_root, all), "gather " + what);
  expect(words(c.scatter(all.data(), part.data(), count, type, 0)), "scatter " + what);
  expect(differs(part, own), "scatter " + what);
  Bytes to_all;
  for (std::size_t i = 0; i < parts; ++i) to_all.insert(to_all.end(), own.begin(), own.end());
  expect(words(c.all_to_all(to_all.data(), gathered.data(), count, type)), "all_to_all " + what);
  expect(differs(gathered, all), "all_to_all " + what);
}

void check_uneven(Communicator& c) {
  std::vector<std::size_t> counts;
  std::vector<std::int32_t> all;
  for (int rank = 0; rank < c.size(); ++rank) {
    counts.push_back(static_cast<std::size_t>(rank) + 1);
    for (int i = 0; i <= rank; ++i) all.push_back(100 * rank + i);
  }
  const std::size_t before = static_cast<std::size_t>(c.rank() * (c.rank() + 1) / 2);
  std::vector<std::int32_t> got(all.size());
  expect(words(c.all_gather_v(all.data() + before, got.data(), counts, DataType::i32)), "all_gather_v");
  expect(got == all ? "" : "wrong", "all_gather_v");
  std::vector<std::int32_t> part(counts[static_cast<std::size_t>(c.rank())]);
  expect(words(c.reduce_scatter_v(all.data(), part.data(), counts, DataType::i32, ReduceOp::sum)), "reduce_scatter_v");
  expect(part.back() == c.size() * (100 * c.rank() + c.rank()) ? "" : "wrong", "reduce_scatter_v");
}

void check_messages_and_groups(Communicator& c) {
  const int next = (c.rank() + 1) % c.size();
  const int last = (c.rank() + c.size() - 1) % c.size();
  std::vector<double> out(5000, c.rank());
  std::vector<double> in(5000, -1);
  Group group(c);
  expect(words(c.receive(in.data(), in.size(), DataType::f64, last)), "receive");
  expect(words(c.send(out.data(), out.size(), DataType::f64, next)), "send");
  expect(words(group.end()), "group");
  expect(in == std::vector<double>(5000, last) ? "" : "wrong", "received in a group");
  std::int64_t sum = 1;
  Work barrier = c.barrier_async();
  Work reduction = c.all_reduce_async(&sum, &sum, 1, DataType::i64, ReduceOp::sum);
  while (!reduction.test()) c.poll();
  expect(words(reduction.wait()), "all_reduce_async");
  expect(words(barrier.wait()), "barrier_async");
  expect(sum == c.size() ? "" : "wrong", "all_reduce_async");
}

void check_refusals(Communicator& c) {
  float value = 1;
  std::uint16_t half = 0;
  expect(refusal(c.all_reduce(&half, &half, 1, DataType::f16, ReduceOp::sum), "backend mpi does not reduce f16"),
         "f16");
  expect(refusal(c.all_reduce(&value, &value, 1, DataType::f32, ReduceOp::average), "average"), "average");
  expect(refusal(c.all_reduce(&value, &value, 1, DataType::f32, Reduction::scaled_sum(2)), "named"), "scaled sum");
  expect(c.all_reduce(&value, nullptr, 1, DataType::f32, ReduceOp::sum).code() == StatusCode::invalid_argument
             ? ""
             : "not refused",
         "null output");
}

void check_split(Communicator& c) {
  auto half = c.split(c.rank() % 2, -c.rank());
  if (!half.is_ok()) return expect(half.status().to_string(), "split");
  std::int32_t sum = c.rank();
  expect(words(half.value()->all_reduce(&sum, &sum, 1, DataType::i32, ReduceOp::sum)), "all_reduce after split");
  std::int32_t expected = 0;
  for (int rank = c.rank() % 2; rank < c.size(); rank += 2) expected += rank;
  expect(sum == expected ? "" : "wrong", "all_reduce after split");
  expect(half.value()->backend().name == c.backend().name ? "" : "another backend", "split");
}

int run(const std::string& backend) {
  auto world = World::join();
  if (!world.is_ok()) return std::printf("%s\n", world.status().to_string().c_str()), 1;
  CommunicatorOptions options;
  options.backend = backend;
  auto made = Communicator::create(std::move(world).value(), options);
  if (!made.is_ok()) return std::printf("%s\n", made.status().to_string().c_str()), 1;
  Communicator& c = *made.value();
  expect(c.backend().name == backend ? "" : "is " + c.backend().name, "backend");
  for (const DataType type : {DataType::f64, DataType::f32, DataType::i8, DataType::u8, DataType::i32, DataType::u32,
                              DataType::i64, DataType::u64, DataType::boolean}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      for (const std::size_t count : {0, 1, 1000}) check_reductions(c, type, op, count);
    }
  }
  for (int type = 0; type < kDataTypeCount; ++type) check_moves(c, static_cast<DataType>(type), 333);
  check_uneven(c);
  check_messages_and_groups(c);
  check_refusals(c);
  check_split(c);
  if (c.rank() == 0) std::printf("checked %s\n", c.backend().version.c_str());
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  return trireme::test::run(argc > 1 ? argv[1] : "ours");
}
