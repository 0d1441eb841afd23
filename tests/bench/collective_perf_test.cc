// The *_perf programs: what they print, write and answer to bad flags; and that their
// inputs have one right result whatever the order of operands.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <trireme/kernels/reduce.h>
#include <nlohmann/json.hpp>

#include "bench/collective_perf/limit.h"
#include "bench/collective_perf/options.h"
#include "bench/collective_perf/pattern.h"
#include "runtime/platform/api/files.h"
#include "tests/program.h"

namespace trireme::bench {
namespace {

using test::Outcome;

Outcome run_program(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), test::built_program(program));
  return test::run(arguments);
}

// What nobody could read, and what the machine has no room for, is no success.
TEST(CollectivePerf, LostOutputAndLackOfThreadsAreFailuresInWords) {
  const std::string perf = test::built_program("all_reduce_perf");
  const test::Outcome lost = test::run({"sh", "-c", perf + " -b 8 -e 8 -t 2 -n 1 -w 0 > /dev/full"});
  EXPECT_EQ(lost.code, 1) << lost.output;
  EXPECT_NE(lost.output.find("standard output"), std::string::npos) << lost.output;
  const test::Outcome many = run_program("all_reduce_perf", {"-b", "8", "-e", "8", "-t", "100000", "-g", "100000"});
  EXPECT_EQ(many.code, 2) << many.output;
  EXPECT_NE(many.output.find("at most 1024 ranks"), std::string::npos) << many.output;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const test::Outcome crowded = test::run({"sh", "-c", "ulimit -v 100000; exec " + perf + " -b 8 -e 8"});
  EXPECT_TRUE(crowded.code == 1 || crowded.code == 0) << crowded.code << crowded.output;
#endif
}

TEST(CollectivePerf, PrintsTheTableAndWritesRows) {
  const auto folder = make_temporary_directory("trireme-perf-");
  ASSERT_TRUE(folder.is_ok());
  const std::string json = folder.value() + "/rows.json";
  const Outcome outcome =
      run_program("all_reduce_perf", {"-b", "8", "-e", "64K", "-f", "8", "-n", "3", "-w", "1", "-t", "3", "-J", json});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* part : {"#       size         count      type   redop    root     time   algbw   busbw #wrong",
                           "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : ", "float     sum      -1"}) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }
  const auto rows = read_file(json);
  ASSERT_TRUE(rows.is_ok()) << rows.status().to_string();
  for (const char* key : {"\"op\": \"all_reduce\"", "\"type\": \"f32\"", "\"redop\": \"sum\"", "\"ranks\": 3",
                          "\"bytes\": 8", "\"backend\": \"ours\"", "\"in_place\": true", "\"time_us\"",
                          "\"algbw_gb_s\"", "\"busbw_gb_s\"", "\"wrong\": 0"}) {
    EXPECT_NE(rows.value().find(key), std::string::npos) << key;
  }
  EXPECT_TRUE(remove_tree(folder.value()).is_ok());
}

TEST(CollectivePerf, EveryTypeAndOperationOfEveryProgram) {
  int ranks = 1;
  for (const char* program : {"all_reduce_perf", "reduce_scatter_perf", "reduce_perf", "all_gather_perf",
                              "broadcast_perf", "gather_perf", "scatter_perf", "alltoall_perf", "sendrecv_perf"}) {
    ranks = ranks % 9 + 2;
    const Outcome outcome =
        run_program(program, {"-b", "1000", "-e",  "40000", "-f",  "40", "-n", "1",  "-w",
                              "0",  "-d",   "all", "-o",    "all", "-r", "0",  "-t", std::to_string(ranks),
                              "-z", "0",    "-m",  "2"});
    EXPECT_EQ(outcome.code, 0) << program << " " << ranks << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find("# Out of bounds values : 0 OK"), std::string::npos) << outcome.output;
  }
}

TEST(CollectivePerf, EveryTypeAndOperationAtEveryNumberOfRanksLong) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const Outcome outcome = run_program("all_reduce_perf", {"-b", "8", "-e", "1M", "-f", "8", "-n", "1", "-w", "0",
                                                            "-d", "all", "-o", "all", "-t", std::to_string(ranks)});
    EXPECT_EQ(outcome.code, 0) << ranks << "\n" << outcome.output;
  }
}

// The reproducible mode gives right sums, and what has no form in place says so.
TEST(CollectivePerf, ReproducibleSumsAndNoFormInPlace) {
  const Outcome sums = run_program("all_reduce_perf", {"-b", "4K", "-e", "4K", "-d", "all", "-o", "sum", "-n", "1",
                                                       "-w", "0", "-t", "3", "--reproducible"});
  EXPECT_EQ(sums.code, 0) << sums.output;
  for (const char* program : {"alltoall_perf", "sendrecv_perf"}) {
    const Outcome outcome = run_program(program, {"-b", "4K", "-e", "4K", "-n", "2", "-t", "3"});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("N/A"), std::string::npos) << outcome.output;
  }
}

// --limit gives every timing the busbw of its work alone, also where inputs are rewritten
// and ranks are bound to processors, and results are right all the same.
TEST(CollectivePerf, LimitStandsBesideEveryRow) {
  const auto folder = make_temporary_directory("trireme-perf-");
  ASSERT_TRUE(folder.is_ok());
  for (const char* program : {"all_reduce_perf", "reduce_scatter_perf", "reduce_perf", "all_gather_perf",
                              "broadcast_perf", "gather_perf", "scatter_perf", "alltoall_perf", "sendrecv_perf"}) {
    const std::string json = folder.value() + "/" + program + ".json";
    const Outcome outcome = run_program(program, {"-b", "1000", "-e", "40000", "-f", "40", "-n", "3", "-w", "1", "-t",
                                                  "3", "--limit", "--rewrite", "--pin", "-J", json});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("# Out of bounds values : 0 OK"), std::string::npos) << outcome.output;
    const auto text = read_file(json);
    ASSERT_TRUE(text.is_ok()) << text.status().to_string();
    const auto rows = nlohmann::json::parse(text.value());
    ASSERT_FALSE(rows.empty());
    for (const auto& row : rows) {
      EXPECT_GT(row.at("limit_gb_s").get<double>(), 0) << row.dump();
      EXPECT_EQ(row.at("wrong").get<int>(), 0) << row.dump();
    }
  }
  EXPECT_TRUE(remove_tree(folder.value()).is_ok());
}

// Ranks that are processes, their buffers in windows of each other's.
TEST(CollectivePerf, RegisteredBuffersOfProcesses) {
  for (const char* program : {"all_reduce_perf", "reduce_scatter_perf", "reduce_perf", "all_gather_perf",
                              "broadcast_perf", "gather_perf", "scatter_perf", "alltoall_perf", "sendrecv_perf"}) {
    const Outcome outcome =
        run_program("trireme", {"run", "-n", "3", "--", std::string(TRIREME_BINARY_DIR) + "/bin/" + program, "-b",
                                "1000", "-e", "1M", "-f", "30", "-n", "2", "-w", "1", "-R", "1", "--limit"});
    EXPECT_EQ(outcome.code, 0) << program << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find("# Out of bounds values : 0 OK"), std::string::npos) << outcome.output;
  }
}

// What is timed as the limit is the work: every target gets the sum of all sources.
TEST(Limit, AddsUpAllSourcesForAllTargets) {
  for (const std::uint64_t bytes : {0, 1, 63, 64, 640, 4099}) {
    for (const auto& [sources, targets] : std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {2, 1}, {4, 4}, {5, 3}}) {
      for (const bool past_caches : {false, true}) {
        std::vector<std::vector<std::byte>> in(static_cast<std::size_t>(sources));
        std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(targets));
        std::vector<const std::byte*> from;
        std::vector<std::byte*> to;
        // Small values: the sums of bytes and of words are the same.
        for (std::size_t i = 0; i < in.size(); ++i) {
          for (std::uint64_t at = 0; at < bytes; ++at) in[i].push_back(static_cast<std::byte>((at + 3 * i) % 40));
          from.push_back(in[i].data());
        }
        for (auto& target : out) {
          target.assign(bytes + 64, std::byte{0xee});
          to.push_back(target.data());
        }
        add_streams({from, to, bytes}, past_caches);
        for (const auto& target : out) {
          for (std::uint64_t at = 0; at < bytes; ++at) {
            unsigned sum = 0;
            for (const auto& source : in) sum += std::to_integer<unsigned>(source[at]);
            ASSERT_EQ(std::to_integer<unsigned>(target[at]), sum) << at << " of " << bytes;
          }
          for (std::uint64_t at = bytes; at < target.size(); ++at) ASSERT_EQ(target[at], std::byte{0xee}) << at;
        }
      }
    }
  }
}

TEST(CollectivePerf, SaysWhatToDoAboutBadFlags) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--nope"}, "-h lists the flags"},
      {{"-b", "8", "-e", "4"}, "give the larger size to -e"},
      {{"-b", "8x"}, "is not a number of bytes"},
      {{"-d", "floot"}, "use one of: f64"},
      {{"-o", "summ"}, "use one of"},
      {{"-n", "0"}, "expected 1 or more"},
      {{"-b", "8", "-r", "5", "-t", "2"}, "there are only ranks 0 to 1"},
      {{"-b", "0", "-e", "8", "-f", "2"}, "never grows"},
      {{"-b", "8", "-e", "16", "-i", "0"}, "never reaches -e"},
      {{"--backend", "carrier_pigeon"}, "expected one of ours, mpi, nccl"},
      {{"-b", "8", "--algorithm", "rong", "-t", "2"}, "there are exchange"},
      {{"-z", "2"}, "expected 0 or 1"},
      {{"-R", "2"}, "expected 0 or 1"},
  };
  for (const auto& [arguments, part] : cases) {
    const Outcome outcome = run_program("reduce_perf", arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }
  const Outcome help = run_program("all_reduce_perf", {"-h"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.output.find("trireme run -n 4 -- all_reduce_perf"), std::string::npos) << help.output;
}

TEST(Options, SizesFollowStepOrFactor) {
  PerfOptions options;
  options.min_bytes = 8;
  options.max_bytes = 100;
  options.step_factor = 3;
  EXPECT_EQ(sizes_of(options), (std::vector<std::uint64_t>{8, 24, 72}));
  options.step_factor = 1;
  options.step_bytes = 40;
  EXPECT_EQ(sizes_of(options), (std::vector<std::uint64_t>{8, 48, 88}));
}

// Reducing in the element's own type, rounding after every operand, in several orders,
// gives the result the pattern expects.
TEST(Pattern, IsExactInAnyOrder) {
  constexpr std::uint64_t kCount = 2500;
  for (int t = 0; t < kDataTypeCount; ++t) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      for (const int ranks : {1, 2, 3, 5, 8, 9, 16, 33, 64}) {
        const auto type = static_cast<DataType>(t);
        const Pattern pattern(type, op, ranks);
        const std::size_t bytes = kCount * size_of(type);
        for (const int stride : {1, -1, 7}) {
          if (stride == 7 && ranks % 7 == 0) continue;
          std::vector<std::byte> sum(bytes), next(bytes);
          const auto nth = [&](int i) { return ((i * stride) % ranks + ranks) % ranks; };
          pattern.fill(sum.data(), nth(0), 3, kCount);
          for (int i = 1; i < ranks; ++i) {
            pattern.fill(next.data(), nth(i), 3, kCount);
            kernels::reduce(sum.data(), sum.data(), next.data(), kCount, type, op);
          }
          ASSERT_EQ(pattern.wrong_reduced(sum.data(), 3, kCount), 0u)
              << to_string(type) << " " << to_string(op) << " ranks=" << ranks << " stride=" << stride;
        }
      }
    }
  }
}

TEST(Pattern, DiffersByRankAndElementAndSeesErrors) {
  const Pattern pattern(DataType::f32, ReduceOp::sum, 4);
  std::vector<float> a(3000), b(3000);
  pattern.fill(reinterpret_cast<std::byte*>(a.data()), 0, 0, a.size());
  pattern.fill(reinterpret_cast<std::byte*>(b.data()), 1, 0, b.size());
  EXPECT_NE(a, b);
  auto* bytes = reinterpret_cast<std::byte*>(a.data());
  EXPECT_EQ(pattern.wrong_copied(bytes, 0, 0, a.size()), 0u);
  EXPECT_GT(pattern.wrong_copied(bytes, 1, 0, a.size()), 1000u);
  EXPECT_GT(pattern.wrong_copied(bytes, 0, 1, a.size() - 1), 1000u);  // Shifted by one.
  a[2999] += 1;
  a[7] = -a[7] + 100;
  EXPECT_EQ(pattern.wrong_copied(bytes, 0, 0, a.size()), 2u);
}

}  // namespace
}  // namespace trireme::bench
