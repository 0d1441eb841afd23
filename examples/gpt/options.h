// The command line of trireme-gpt as a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/data_type.h>
#include <trireme/base/status.h>
#include <trireme/parallel/model.h>

namespace trireme::gpt {

struct Options {
  std::vector<std::string> data;
  GptConfig model;
  std::int64_t steps = 1400;
  std::int64_t batch = 8;       // Sequences in a step, over all ranks.
  std::int64_t microbatch = 0;  // Sequences a rank computes at once; 0: all of its share.
  double learning_rate = 3e-3;
  double learning_rate_min = -1;  // Negative: a tenth of learning_rate.
  std::int64_t warmup_steps = 100;
  double weight_decay = 0.1;
  double clip = 1.0;
  double beta2 = 0.99;
  std::uint64_t seed = 1;
  DataType product_type = DataType::f32;
  int data_parallel = 0;  // 0: all ranks.
  int threads = 0;        // 0: TRIREME_THREADS, else usable cores / ranks on this host.
  std::uint64_t bucket_bytes = std::uint64_t{1} << 20;
  std::string checkpoint_dir;
  std::int64_t checkpoint_every = 0;  // Steps; 0: only at the end.
  int checkpoint_keep = 3;
  std::string resume = "auto";  // "auto", "never" or the path of a checkpoint.
  std::string metrics;
  std::int64_t eval_every = 0;    // Steps; 0: only at the end.
  std::int64_t eval_batches = 8;  // Of each evaluation but the last, which takes all held-out text.
  std::int64_t generate = 0;      // Bytes of sample text at the end.
  double temperature = 0.8;
  std::string json;
};

// What to do with a command line.
struct CommandLine {
  Options options;
  bool done = false;  // --help, --version or --show-config: `text` was asked for.
  std::string text;
};
// Errors: invalid_argument with what was wrong and what is accepted.
Result<CommandLine> parse_command_line(int argc, const char* const* argv);

}  // namespace trireme::gpt
