// trireme simulate, trireme tune and p2p_matrix, as their users run them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include <trireme/topology/route.h>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"
#include "tests/program.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

using test::Outcome;

class Tools : public testing::Test {
 protected:
  Tools() : folder_(make_temporary_directory("trireme-tools").value()) {}
  ~Tools() override { std::filesystem::remove_all(folder_); }

  // A program of build/.
  Outcome run(const std::string& program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), std::string(TRIREME_BINARY_DIR) + "/" + program);
    return test::run(arguments, {"XDG_CACHE_HOME=" + folder_ + "/cache"});
  }
  Outcome simulate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"simulate", "collective"});
    return run("bin/trireme", std::move(arguments));
  }
  static std::string network(const std::string& name) {
    return std::string(TRIREME_SOURCE_DIR) + "/collectives/simulate/networks/" + name + ".json";
  }
  std::string folder_;
};

TEST_F(Tools, SimulatePrintsTheAgreedObject) {
  const Outcome outcome = simulate({"--op", "all_reduce", "--ranks", "8", "--size", "1G", "--topology",
                                    network("h100_node"), "--algorithm", "ring", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = Json::parse(outcome.output);
  EXPECT_EQ(result.at("op"), "all_reduce");
  EXPECT_EQ(result.at("ranks"), 8);
  EXPECT_EQ(result.at("bytes"), 1 << 30);
  EXPECT_EQ(result.at("algorithm"), "ring");
  EXPECT_EQ(result.at("bottleneck"), "nvlink");
  // 2 * 7 steps of an eighth over 370.8 GB/s, 7 reductions at 1.5 TB/s.
  const double part = (1 << 30) / 8.0;
  const double expected_us = (14 * (part / 370.8e9 + 1.2e-6 + 0.6e-6) + 7 * part / 1.5e12) * 1e6;
  EXPECT_NEAR(result.at("time_us").get<double>(), expected_us, 0.01 * expected_us);
  EXPECT_NEAR(result.at("busbw_gb_s").get<double>(), 2 * 7.0 / 8 * (1 << 30) / expected_us * 1e-3, 5);
}

TEST_F(Tools, SimulateComparesAlgorithmsAndDraws) {
  const std::string figure = folder_ + "/busbw.svg";
  const Outcome outcome = simulate({"--op", "all_gather", "--ranks", "32", "--size", "64M", "--topology",
                                    network("ethernet_100g"), "--figure", figure});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  for (const char* name : {"ring", "pairwise", "direct", "not possible"}) {
    EXPECT_NE(outcome.output.find(name), std::string::npos) << outcome.output;
  }
  const std::string svg = read_file(figure).value();
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find(">ring</text>"), std::string::npos);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
}

TEST_F(Tools, EveryDescribedNetworkWorks) {
  for (const char* name : {"h100_node", "h100_4_nodes", "h100_rails", "ethernet_100g", "two_hosts_1g"}) {
    const std::string ranks = name == std::string("h100_node") ? "8" : "16";
    const Outcome outcome =
        simulate({"--op", "all_reduce", "--ranks", ranks, "--size", "1M", "--topology", network(name)});
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.output;
  }
}

TEST_F(Tools, SimulateKnowsTheHostsOfADescribedNetwork) {
  const Outcome outcome = simulate({"--op", "all_reduce", "--ranks", "32", "--size", "1G", "--topology",
                                    network("h100_4_nodes"), "--algorithm", "hierarchical", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  // The phases' bytes by the links of each: inside 2 x 7/8, across 2 x 3/4 of an eighth.
  const double bytes = 1 << 30;
  const double least_us = (2 * 7.0 / 8 * bytes / 370.8e9 + 2 * 3.0 / 4 * bytes / 8 / 48.5e9) * 1e6;
  EXPECT_GE(Json::parse(outcome.output).at("time_us").get<double>(), least_us);
  EXPECT_LE(Json::parse(outcome.output).at("time_us").get<double>(), 1.3 * least_us);
}

TEST_F(Tools, SimulateRefusesBadInputByName) {
  const std::vector<std::string> good = {"--op",   "all_reduce", "--ranks",    "8",
                                         "--size", "1M",         "--topology", network("h100_node")};
  const auto refused = [&](std::size_t at, const std::string& value, const std::string& part) {
    std::vector<std::string> arguments = good;
    arguments[at] = value;
    const Outcome outcome = simulate(arguments);
    EXPECT_EQ(outcome.code, 2) << value << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  };
  refused(1, "all_reduces", "all_gather");
  refused(3, "1", "2 or more");
  refused(5, "many", "many");
  refused(7, "/nonexistent/x.json", "/nonexistent/x.json");
}

TEST_F(Tools, SimulateTakes65536RanksInSeconds) {
  const Outcome outcome = simulate({"--op", "all_reduce", "--ranks", "65536", "--size", "1G", "--topology",
                                    network("h100_rails"), "--algorithm", "recursive_doubling", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(Json::parse(outcome.output).at("ranks"), 65536);
}

TEST_F(Tools, SimulateTakes65536RanksOnARingLong) {
  const Outcome outcome = simulate({"--op", "all_reduce", "--ranks", "65536", "--size", "1G", "--topology",
                                    network("h100_rails"), "--algorithm", "ring", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(Json::parse(outcome.output).at("algorithm"), "ring");
}

// p2p_matrix measures; topo shows it, explains by it; simulate replays on it.
TEST_F(Tools, AMeasuredMatrixServesTopoAndSimulate) {
  const std::string file = folder_ + "/measured.json";
  const Outcome measured = run("bin/p2p_matrix", {"-t", "3", "-n", "4", "-b", "256K", "--json", file});
  ASSERT_EQ(measured.code, 0) << measured.output;
  EXPECT_NE(measured.output.find("# latency"), std::string::npos) << measured.output;
  const Result<Topology> topology = topology_from_json(read_file(file).value());
  ASSERT_TRUE(topology.is_ok()) << topology.status().to_string();
  const std::vector<int> ranks = topology->of_kind(VertexKind::rank);
  ASSERT_EQ(ranks.size(), 3u);
  for (int from : ranks) {
    for (int to : ranks) {
      if (from != to) {
        EXPECT_GE(measured_link(*topology, from, to), 0);
      }
    }
  }
  const Outcome matrix = run("bin/trireme", {"topo", "--from", file});
  EXPECT_NE(matrix.output.find("RANK2"), std::string::npos) << matrix.output;
  EXPECT_NE(matrix.output.find("SHM"), std::string::npos) << matrix.output;
  const Outcome explained = run("bin/trireme", {"topo", "--from", file, "--explain", "RANK0", "RANK2"});
  EXPECT_NE(explained.output.find("taken    measured (shm)"), std::string::npos) << explained.output;
  const Outcome simulated =
      simulate({"--op", "all_reduce", "--ranks", "3", "--size", "1M", "--topology", file, "--json"});
  ASSERT_EQ(simulated.code, 0) << simulated.output;
  EXPECT_GT(Json::parse(simulated.output).at("time_us").get<double>(), 0);
}

TEST_F(Tools, TuneMeasuresKeepsAndExplains) {
  const Outcome before = run("bin/trireme", {"topo", "--explain-collective", "all_reduce", "--size", "1M"});
  EXPECT_EQ(before.code, 0) << before.output;
  EXPECT_NE(before.output.find("no tuning table"), std::string::npos) << before.output;
  const Outcome tuned = run("bin/trireme", {"tune", "--ranks", "2", "--largest", "4096", "--budget", "1"});
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_NE(tuned.output.find("kept in " + folder_ + "/cache/trireme/tuning-"), std::string::npos) << tuned.output;
  const Outcome after = run("bin/trireme", {"topo", "--explain-collective", "all_reduce", "--size", "4K"});
  EXPECT_NE(after.output.find("because it took the least time when this machine was measured"), std::string::npos)
      << after.output;
  const Outcome other = run("bin/trireme", {"topo", "--explain-collective", "all_reduce", "--ranks", "5"});
  EXPECT_NE(other.output.find("because it is expected"), std::string::npos) << other.output;
  const Outcome wrong = run("bin/trireme", {"topo", "--explain-collective", "all_reduces"});
  EXPECT_EQ(wrong.code, 2) << wrong.output;
}

TEST_F(Tools, TuneRefusesWhatCannotBeMeasuredOrKept) {
  const auto refused = [&](const std::vector<std::string>& flags, const std::string& part) {
    std::vector<std::string> arguments = {"tune"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = run("bin/trireme", arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  };
  refused({"--largest", "-1"}, "--largest");
  refused({"--largest", "0"}, "--largest");
  refused({"--budget", "-1"}, "--budget");
  refused({"--ranks", "100000"}, "trireme run -n 100000");
  refused({"--output", folder_}, "it is a folder");
  refused({"--output", folder_ + "/none/table.json"}, "there is no folder");
  EXPECT_FALSE(file_info(folder_ + "/none")->exists);
}

}  // namespace
}  // namespace trireme
