// trireme-checkpoint, as a user runs it.
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/checkpoint_test_util.h"
#include "tests/program.h"

namespace trireme {
namespace {

using namespace checkpoint_test;

using test::Outcome;

Outcome tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(TRIREME_BINARY_DIR) + "/libexec/trireme/trireme-checkpoint");
  return test::run(arguments);
}

class Tool : public testing::Test {
 protected:
  void SetUp() override {
    const auto checkpointer = lone_checkpointer(folder_ / "c");
    for (const std::uint64_t step : {1U, 2U}) {
      model_.fill(step);
      ASSERT_TRUE(save_and_wait(*checkpointer, static_cast<std::int64_t>(step), model_.state()).is_ok());
    }
  }
  TemporaryFolder folder_;
  Model model_{0, 1};
};

TEST_F(Tool, ListsNewestFirst) {
  const Outcome list = tool({"list", folder_ / "c"});
  EXPECT_EQ(list.code, 0);
  EXPECT_LT(list.output.find("step-00000002"), list.output.find("step-00000001")) << list.output;
  const Outcome as_json = tool({"list", "--json", folder_ / "c"});
  const auto value = nlohmann::json::parse(as_json.output);
  ASSERT_EQ(value.size(), 2U);
  EXPECT_EQ(value[0]["step"], 2);
  EXPECT_EQ(value[0]["valid"], true);
  EXPECT_EQ(value[0]["items"], item_kinds().size());
}

TEST_F(Tool, VerifyFindsDamage) {
  EXPECT_EQ(tool({"verify", folder_ / "c"}).code, 0);
  File file = File::open(folder_ / "c/step-00000002/shard-00000.bin", File::Mode::update).value();
  char byte = 0;
  ASSERT_TRUE(file.pread(&byte, 1, 200).is_ok());
  byte = static_cast<char>(byte ^ 1);
  ASSERT_TRUE(file.pwrite(&byte, 1, 200).is_ok());
  const Outcome verify = tool({"verify", folder_ / "c"});
  EXPECT_EQ(verify.code, 1);
  EXPECT_NE(verify.output.find("checksum is wrong"), std::string::npos) << verify.output;
  EXPECT_EQ(tool({"verify", folder_ / "c/step-00000001"}).code, 0);
  EXPECT_EQ(tool({"verify", folder_ / "c/step-00000002"}).code, 1);
}

TEST_F(Tool, ShowsItemsAndMetadata) {
  const Outcome show = tool({"show", folder_ / "c"});
  EXPECT_EQ(show.code, 0);
  for (const char* text : {"step 2,", "loss = 2", "item parameters/w  f32 [37, 19]", "shard-00000.bin"}) {
    EXPECT_NE(show.output.find(text), std::string::npos) << show.output;
  }
  const Outcome as_json = tool({"show", "--json", folder_ / "c/step-00000001"});
  EXPECT_EQ(nlohmann::json::parse(as_json.output)["step"], 1);
}

TEST_F(Tool, MistakesEndWithTwo) {
  EXPECT_EQ(tool({}).code, 2);
  EXPECT_EQ(tool({"list"}).code, 2);
  EXPECT_EQ(tool({"list", "--bad", folder_ / "c"}).code, 2);
  const Outcome missing = tool({"verify", folder_ / "no"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.output.find("not_found"), std::string::npos);
  EXPECT_EQ(tool({"--help"}).code, 0);
}

}  // namespace
}  // namespace trireme
