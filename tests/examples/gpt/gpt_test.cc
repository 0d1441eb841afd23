// The training program's own parts: command line, metrics file, sampling of text.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "examples/gpt/events.h"
#include "examples/gpt/metrics.h"
#include "examples/gpt/options.h"
#include "examples/gpt/sample.h"
#include "runtime/platform/api/files.h"

namespace trireme::gpt {
namespace {

Result<CommandLine> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "trireme-gpt");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

// The command line is refused as the caller's mistake, with these words.
void expect_refused(const std::vector<const char*>& arguments, const std::string& words) {
  const Result<CommandLine> result = parse(arguments);
  ASSERT_FALSE(result.is_ok()) << words;
  EXPECT_EQ(2, exit_code(result.status().code()));
  EXPECT_NE(std::string::npos, result.status().message().find(words)) << result.status().message();
}

TEST(Options, ReadsTheDocumentedFlags) {
  const Result<CommandLine> result = parse({"--data",  "a.txt",
                                            "b.txt",   "--steps",
                                            "7",       "--layers",
                                            "2",       "--dim",
                                            "48",      "--heads",
                                            "3",       "--seq",
                                            "64",      "--batch",
                                            "12",      "--microbatch",
                                            "2",       "--lr",
                                            "0.01",    "--seed",
                                            "9",       "--dtype",
                                            "bf16",    "--dp",
                                            "4",       "--checkpoint-dir",
                                            "c",       "--checkpoint-every",
                                            "5",       "--resume",
                                            "never",   "--metrics",
                                            "m.jsonl", "--eval-every",
                                            "3",       "--threads",
                                            "2",       "--generate",
                                            "10",      "--temperature",
                                            "0.5",     "--warmup",
                                            "4"});
  ASSERT_TRUE(result.is_ok()) << result.status().to_string();
  const Options& options = result->options;
  EXPECT_EQ((std::vector<std::string>{"a.txt", "b.txt"}), options.data);
  EXPECT_EQ(7, options.steps);
  EXPECT_EQ(48, options.model.width);
  EXPECT_EQ(64, options.model.tokens);
  EXPECT_EQ(DataType::bf16, options.product_type);
  EXPECT_EQ(4, options.data_parallel);
  EXPECT_EQ("never", options.resume);
  EXPECT_DOUBLE_EQ(0.01, options.learning_rate);
  EXPECT_DOUBLE_EQ(0.001, options.learning_rate_min);  // A tenth unless given.
  EXPECT_FALSE(result->done);
  const Result<CommandLine> repeated = parse({"--data", "a", "--data", "b", "--steps", "1", "--steps", "2"});
  ASSERT_TRUE(repeated.is_ok()) << repeated.status().to_string();
  EXPECT_EQ(2, repeated->options.steps);                                    // The last one counts,
  EXPECT_EQ((std::vector<std::string>{"a", "b"}), repeated->options.data);  // but files add up.
}

TEST(Options, RefusesMistakesWithAdvice) {
  expect_refused({}, "--data is missing");
  expect_refused({"--data", "x", "--hads", "4"}, "--hads");
  expect_refused({"--data", "x", "--steps", "many"}, "--steps");
  expect_refused({"--data", "x", "--dim", "128", "--heads", "5"}, "5 heads do not divide dim 128");
  expect_refused({"--data", "x", "--batch", "0"}, "--batch is 0; expected 1");
  expect_refused({"--data", "x", "--lr", "nan"}, "--lr");
  expect_refused({"--data", "x", "--dtype", "f16"}, "expected f32 or bf16");
  expect_refused({"--data", "x", "--dtype", "fp7"}, "bf16");
  expect_refused({"--data", "x", "--checkpoint-every", "5"}, "needs --checkpoint-dir");
  expect_refused({"--data", "x", "--config", "/nonexistent.toml"}, "/nonexistent.toml");
  expect_refused({"--data", "x", "--resume", "run/step-00000010"}, "--resume run/step-00000010 needs --checkpoint-dir");
  for (const char* seed : {"-1", "18446744073709551616", "1.5", "1x"}) {
    expect_refused({"--data", "x", "--seed", seed}, "--seed is " + std::string(seed));
  }
  EXPECT_EQ(UINT64_MAX, parse({"--data", "x", "--seed", "18446744073709551615"})->options.seed);
}

// A misspelt setting that was ignored would train something else than was asked for.
TEST(Options, AConfigurationFileOfOtherThingsIsRefused) {
  const std::string folder = make_temporary_directory("options").value();
  const std::string path = folder + "/c.toml";
  for (const char* text : {"stepz = 5\n", "In the beginning\nGod created\n", "[model]\nlayers = 2\n"}) {
    ASSERT_TRUE(write_file_atomically(path, text).is_ok());
    expect_refused({"--data", "x", "--config", path.c_str()}, "--config");
  }
  ASSERT_TRUE(remove_tree(folder).is_ok());
}

TEST(Options, HelpShowsExamplesAndConfigRoundTrips) {
  const Result<CommandLine> help = parse({"--help"});
  ASSERT_TRUE(help.is_ok());
  EXPECT_TRUE(help->done);
  EXPECT_NE(std::string::npos, help->text.find("trireme run -n 4 -- trireme-gpt"));
  const Result<CommandLine> shown = parse({"--data", "x", "--steps", "77", "--lr", "0.25", "--show-config"});
  ASSERT_TRUE(shown.is_ok());
  EXPECT_TRUE(shown->done);
  const std::string folder = make_temporary_directory("options").value();
  ASSERT_TRUE(write_file_atomically(folder + "/c.toml", shown->text).is_ok());
  const Result<CommandLine> again = parse({"--config", (folder + "/c.toml").c_str(), "--steps", "78"});
  ASSERT_TRUE(again.is_ok()) << again.status().to_string() << shown->text;
  EXPECT_EQ(78, again->options.steps);  // The command line wins.
  EXPECT_DOUBLE_EQ(0.25, again->options.learning_rate);
  EXPECT_EQ(std::vector<std::string>{"x"}, again->options.data);
  ASSERT_TRUE(remove_tree(folder).is_ok());
}

StepMetrics example(std::int64_t step) {
  return {step, 0.1 + static_cast<double>(step) / 3, 1e-300, 3e-4, step * 100, 1234.5678901234567, 0.3, 2};
}

TEST(Metrics, LinesHaveTheKeysAndRoundTrip) {
  const nlohmann::json line = nlohmann::json::parse(to_json_line(example(4)));
  std::vector<std::string> keys;
  for (const auto& [key, value] : line.items()) keys.push_back(key);
  EXPECT_EQ((std::vector<std::string>{"grad_norm", "loss", "lr", "skipped", "step", "step_ms", "tokens",
                                      "tokens_per_second"}),
            keys);
  EXPECT_EQ(example(4).loss, line["loss"].get<double>());
  EXPECT_EQ(1e-300, line["grad_norm"].get<double>());
  EXPECT_EQ(1234.5678901234567, line["tokens_per_second"].get<double>());
  StepMetrics bad = example(1);
  bad.loss = std::numeric_limits<double>::quiet_NaN();
  bad.grad_norm = std::numeric_limits<double>::infinity();
  const nlohmann::json null_line = nlohmann::json::parse(to_json_line(bad));
  EXPECT_TRUE(null_line["loss"].is_null());
  EXPECT_TRUE(null_line["grad_norm"].is_null());
}

TEST(Metrics, ResumingCutsTheFutureAndBrokenLines) {
  const std::string folder = make_temporary_directory("metrics").value();
  const std::string path = folder + "/m.jsonl";
  {
    auto file = MetricsFile::open(path, 0).value();
    for (std::int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(file->append(example(step)).is_ok());
  }
  // The process died while it wrote.
  std::string contents = read_file(path).value();
  const std::string three = to_json_line(example(1)) + to_json_line(example(2)) + to_json_line(example(3));
  ASSERT_TRUE(write_file_atomically(path, contents + "{\"step\":2,\"lo").is_ok());
  {
    auto file = MetricsFile::open(path, 3).value();
    EXPECT_EQ(three, read_file(path).value());
    ASSERT_TRUE(file->append(example(4)).is_ok());
    EXPECT_EQ(three + to_json_line(example(4)), read_file(path).value());
  }
  ASSERT_TRUE(MetricsFile::open(path, 0).is_ok());  // A fresh start.
  EXPECT_EQ("", read_file(path).value());
  EXPECT_EQ(StatusCode::not_found, MetricsFile::open(folder + "/no/such/m.jsonl", 0).status().code());
  ASSERT_TRUE(remove_tree(folder).is_ok());
}

TEST(Metrics, KeepStepsIgnoresWhatIsNotOurs) {
  EXPECT_EQ("", keep_steps("", 9));
  EXPECT_EQ("{\"step\":9}\n",
            keep_steps("garbage\n[1]\n{\"step\":\"x\"}\n{\"step\":10}\n{\"step\":9}\n{\"step\":1}", 9));
}

TEST(Events, AreAppendedBesideTheMetrics) {
  const std::string folder = make_temporary_directory("events").value();
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto events = EventFile::open(folder + "/m.jsonl").value();
    ASSERT_TRUE(events->append({"evaluation", 12, "said \"so\"", 1.75}).is_ok());
  }
  const std::string contents = read_file(folder + "/events.jsonl").value();
  const std::string first = contents.substr(0, contents.find('\n'));
  EXPECT_EQ(2, std::count(contents.begin(), contents.end(), '\n'));
  const nlohmann::json line = nlohmann::json::parse(first);
  EXPECT_EQ("evaluation", line["event"]);
  EXPECT_EQ(12, line["step"]);
  EXPECT_EQ(1.75, line["held_out_loss"]);
  EXPECT_EQ("said \"so\"", line["detail"]);
  ASSERT_TRUE(remove_tree(folder).is_ok());
}

TEST(Sample, DrawsFromTheDistribution) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};  // 1 : 2 : 5
  EXPECT_EQ(2, draw(logits, 0, 0.0));
  std::vector<int> counts(3, 0);
  for (int i = 0; i < 800; ++i) ++counts[static_cast<std::size_t>(draw(logits, 1.0, (i + 0.5) / 800))];
  EXPECT_EQ((std::vector<int>{100, 200, 500}), counts);
  EXPECT_EQ(2, draw(logits, 1e-3, 0.01));  // Cold: the likeliest.
  EXPECT_EQ(0, draw({logits.data(), 1}, 1.0, 0.999999999));
  const std::vector<float> huge = {1000.0f, -1000.0f};
  EXPECT_EQ(0, draw(huge, 1.0, 0.5));
}

TEST(Sample, PrintableKeepsTextAndHidesControl) {
  EXPECT_EQ("a\nb\tc???", printable(std::string("a\nb\tc\x1b\x7f\xff", 8)));
}

}  // namespace
}  // namespace trireme::gpt
