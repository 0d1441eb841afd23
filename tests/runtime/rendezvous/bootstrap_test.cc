#include "runtime/rendezvous/bootstrap.h"

#include <map>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme::store {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
using Source = Bootstrap::Source;

EnvironmentLookup lookup(Variables variables) {
  return [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Result<Bootstrap> find(const Variables& variables, const WorldOptions& options = {}) {
  return find_bootstrap(options, lookup(variables));
}

const Variables kTrireme = {{"TRIREME_RANK", "2"},
                            {"TRIREME_WORLD_SIZE", "4"},
                            {"TRIREME_STORE", "127.0.0.1:5"},
                            {"TRIREME_JOB_ID", "j"},
                            {"TRIREME_EPOCH", "3"}};
const Variables kMpirun = {
    {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "12345"}};
const Variables kSrun = {{"SLURM_PROCID", "1"},
                         {"SLURM_NTASKS", "4"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_STEP_NODELIST", "node[01-02]"}};
const Variables kTorchrun = {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

TEST(Bootstrap, AloneWithoutALauncher) {
  const auto found = find({});
  EXPECT_EQ(found->source, Source::standalone);
  EXPECT_EQ(found->rank, 0);
  EXPECT_EQ(found->size, 1);
}

TEST(Bootstrap, StandaloneOptionWinsOverEverything) {
  WorldOptions options;
  options.standalone = true;
  EXPECT_EQ(find(kTrireme, options)->source, Source::standalone);
  EXPECT_EQ(find(with(kMpirun, {{"RANK", "junk"}}), options)->size, 1);
}

TEST(Bootstrap, TriremeRun) {
  const auto found = find(kTrireme);
  EXPECT_EQ(found->source, Source::trireme);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->size, 4);
  EXPECT_EQ(found->epoch, 3);
  EXPECT_EQ(found->job_id, "j");
  EXPECT_EQ(found->store_addresses, std::vector<std::string>{"127.0.0.1:5"});
  EXPECT_TRUE(found->listen_addresses.empty());
}

TEST(Bootstrap, OptionsComeBeforeVariables) {
  WorldOptions options;
  options.rank = 0;
  options.size = 2;
  options.store_address = "a:1,b:2";
  options.job_id = "mine";
  options.epoch = 9;
  const auto found = find(kMpirun, options);
  EXPECT_EQ(found->source, Source::trireme);
  EXPECT_EQ(found->size, 2);
  EXPECT_EQ(found->epoch, 9);
  EXPECT_EQ(found->job_id, "mine");
  EXPECT_EQ(found->store_addresses, (std::vector<std::string>{"a:1", "b:2"}));
}

TEST(Bootstrap, InsideSlurmTriremeRunAndTorchrunComeFirst) {
  EXPECT_EQ(find(with(kSrun, kTrireme))->source, Source::trireme);
  EXPECT_EQ(find(with(kSrun, kMpirun))->source, Source::pmix);
  EXPECT_EQ(find(with(kSrun, kTorchrun))->source, Source::torchrun);
  EXPECT_EQ(find(kSrun)->source, Source::slurm);
  // `mpirun -n 1 trireme run -n 4`: the outer world of one says nothing.
  const Variables outer = {
      {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}};
  EXPECT_EQ(find(with(outer, kTrireme))->source, Source::trireme);
}

TEST(Bootstrap, Mpirun) {
  const auto found = find(kMpirun);
  EXPECT_EQ(found->source, Source::pmix);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->size, 4);
  EXPECT_EQ(find({{"PMIX_RANK", "5"}, {"PMIX_NAMESPACE", "slurm.pmix.1.0"}})->size, -1);  // srun --mpi=pmix
}

TEST(Bootstrap, SlurmOnSeveralHosts) {
  const auto found = find(kSrun);
  EXPECT_EQ(found->source, Source::slurm);
  EXPECT_EQ(found->job_id, "slurm-77.2");
  ASSERT_EQ(found->store_addresses.size(), found->listen_addresses.size());
  EXPECT_EQ(found->store_addresses.front().rfind("node01:2", 0), 0u) << found->store_addresses.front();
  EXPECT_EQ(found->epoch, 1);
  EXPECT_EQ(find(with(kSrun, {{"SLURM_RESTART_COUNT", "2"}}))->epoch, 3);
}

TEST(Bootstrap, SlurmOnOneHostMeetsAtAnAbstractSocket) {
  const auto found = find(with(kSrun, {{"SLURM_STEP_NODELIST", "node01"}}));
  EXPECT_EQ(found->store_addresses, found->listen_addresses);
  EXPECT_EQ(found->store_addresses.front().rfind("unix:@", 0), 0u);
}

TEST(Bootstrap, ABatchScriptIsNoStep) {
  Variables batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(find(batch)->source, Source::standalone);
  EXPECT_EQ(find(with(kSrun, {{"SLURM_STEP_ID", "4294967291"}}))->source, Source::standalone);
}

TEST(Bootstrap, Torchrun) {
  const auto found = find(kTorchrun);
  EXPECT_EQ(found->source, Source::torchrun);
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->store_addresses.front(), "node7:29500");
  EXPECT_EQ(found->listen_addresses.front(), "[::]:29500");
  EXPECT_EQ(find(with(kTorchrun, {{"MASTER_ADDR", "localhost"}}))->listen_addresses.front(), "localhost:29500");
  EXPECT_EQ(find(with(kTorchrun, {{"MASTER_ADDR", "::1"}}))->store_addresses.front(), "[::1]:29500");
  EXPECT_EQ(find({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->source, Source::standalone);
  EXPECT_EQ(find({{"RANK", "7"}})->source, Source::standalone);  // Alone the name means little.
}

// The message names both variables and both values.
TEST(Bootstrap, ContradictionsNameBothVariables) {
  struct Case {
    Variables variables;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {with(kTrireme, kMpirun), {"TRIREME_RANK=2", "PMIX_RANK=1"}},
      {with(kTrireme, kTorchrun), {"TRIREME_RANK=2", "RANK=3"}},
      {with(kMpirun, {{"PMIX_RANK", "2"}}), {"PMIX_RANK=2", "OMPI_COMM_WORLD_RANK=1"}},
      {with(kMpirun, kTorchrun), {"PMIX_RANK=1", "RANK=3"}},
      {with(with(kMpirun, kTorchrun), {{"RANK", "1"}, {"WORLD_SIZE", "8"}}),
       {"OMPI_COMM_WORLD_SIZE=4", "WORLD_SIZE=8"}},
      {{{"TRIREME_RANK", "4"}, {"TRIREME_WORLD_SIZE", "4"}}, {"TRIREME_RANK=4", "TRIREME_WORLD_SIZE=4"}},
      {with(kSrun, {{"SLURM_PROCID", "9"}}), {"SLURM_PROCID=9", "SLURM_NTASKS=4"}},
  };
  for (const Case& c : cases) {
    const auto found = find(c.variables);
    ASSERT_FALSE(found.is_ok()) << c.words[0];
    EXPECT_EQ(found.status().code(), StatusCode::invalid_argument);
    for (const std::string& word : c.words) {
      EXPECT_NE(found.status().message().find(word), std::string::npos)
          << found.status().message() << " lacks " << word;
    }
  }
}

TEST(Bootstrap, WhatIsMissingIsNamed) {
  const auto message = [](const Variables& variables) {
    const auto found = find(variables);
    return found.is_ok() ? std::string("ok") : found.status().message();
  };
  EXPECT_NE(message({{"TRIREME_RANK", "1"}}).find("TRIREME_WORLD_SIZE"), std::string::npos);
  EXPECT_NE(message({{"TRIREME_RANK", "1"}, {"TRIREME_WORLD_SIZE", "2"}}).find("TRIREME_STORE"), std::string::npos);
  EXPECT_NE(message({{"TRIREME_STORE", "a:1"}}).find("TRIREME_RANK"), std::string::npos);
  EXPECT_NE(message({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR"), std::string::npos);
  EXPECT_NE(message({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}).find("MASTER_PORT"), std::string::npos);
  EXPECT_NE(message({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).find("PMIX_NAMESPACE"),
            std::string::npos);
}

TEST(Bootstrap, IntegersAreValidated) {
  for (const char* text : {"x", "-1", "1x", "99999999999999999999", " 1"}) {
    const auto found = find(with(kTrireme, {{"TRIREME_RANK", text}}));
    ASSERT_FALSE(found.is_ok()) << text;
    EXPECT_NE(found.status().message().find(std::string("TRIREME_RANK=") + text), std::string::npos);
  }
  EXPECT_FALSE(find(with(kTrireme, {{"TRIREME_EPOCH", "-3"}})).is_ok());
  EXPECT_FALSE(find(with(kTorchrun, {{"MASTER_PORT", "70000"}})).is_ok());
  EXPECT_NE(find(with(kSrun, {{"SLURM_STEP_NODELIST", "n[1"}})).status().message().find("SLURM_STEP_NODELIST"),
            std::string::npos);
}

TEST(Secret, ReadFromADescriptorAgainAndAgain) {
  const UniqueFd memory(::memfd_create("secret", MFD_ALLOW_SEALING));
  ASSERT_TRUE(memory.valid());
  ASSERT_EQ(::write(memory.get(), "0123456789", 10), 10);
  const auto environment = lookup({{"TRIREME_SECRET_FD", std::to_string(memory.get())}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*find_secret({}, environment), "0123456789");
  WorldOptions options;
  options.secret = "given";
  EXPECT_EQ(*find_secret(options, environment), "given");
  EXPECT_EQ(*find_secret({}, lookup({})), "");
}

TEST(Secret, ErrorsNameTheDescriptor) {
  const auto closed = find_secret({}, lookup({{"TRIREME_SECRET_FD", "987654"}}));
  ASSERT_FALSE(closed.is_ok());
  EXPECT_NE(closed.status().message().find("987654 (TRIREME_SECRET_FD"), std::string::npos);
  const UniqueFd empty(::memfd_create("empty", 0));
  EXPECT_EQ(find_secret({}, lookup({{"TRIREME_SECRET_FD", std::to_string(empty.get())}})).status().code(),
            StatusCode::data_loss);
}

TEST(Bootstrap, StartedByHandRankZeroHostsTheStore) {
  const auto listens = [](const Variables& more) {
    const auto found = find(with(kTrireme, more));
    EXPECT_TRUE(found.is_ok()) << found.status().to_string();
    return found.is_ok() ? found->listen_addresses : std::vector<std::string>();
  };
  using Addresses = std::vector<std::string>;
  const Variables serve = {{"TRIREME_RANK", "0"}, {"TRIREME_SERVE_STORE", "1"}};
  EXPECT_EQ(listens(with(serve, {{"TRIREME_STORE", "node1:4000,10.0.0.1:4000"}})), Addresses{"[::]:4000"});
  EXPECT_EQ(listens(with(serve, {{"TRIREME_STORE", "[fd00::1]:4000"}})), Addresses{"[::]:4000"});
  EXPECT_EQ(listens(serve), Addresses{"127.0.0.1:5"});
  EXPECT_EQ(listens(with(serve, {{"TRIREME_RANK", "1"}})), Addresses{});
  EXPECT_EQ(listens(with(serve, {{"TRIREME_SERVE_STORE", "0"}})), Addresses{});
  EXPECT_EQ(listens(with(serve, {{"TRIREME_SECRET_FD", "7"}})), Addresses{});  // Inherited below `trireme run`.
  for (const char* bad : {"node1", "node1:", "node1:0", "node1:x", ":", "node1:70000"}) {
    EXPECT_EQ(find(with(with(kTrireme, serve), {{"TRIREME_STORE", bad}})).status().code(), StatusCode::invalid_argument)
        << bad;
  }
}

TEST(Bootstrap, TheSecretMayStandInTheEnvironment) {
  EXPECT_EQ(*find_secret({}, lookup({{"TRIREME_SECRET", "by hand"}})), "by hand");
}

}  // namespace
}  // namespace trireme::store
