#include "examples/gpt/options.h"

#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

namespace trireme::gpt {

namespace {

constexpr const char* kExamples = R"(Examples:
  trireme-gpt --data bible.txt --steps 500
  trireme run -n 4 -- trireme-gpt --data bible.txt --checkpoint-dir ckpt --checkpoint-every 100 --metrics m.jsonl
  trireme run -n 4 --max-restarts 3 -- trireme-gpt --data bible.txt --checkpoint-dir ckpt --checkpoint-every 50
  mpirun -n 4 trireme-gpt --data bible.txt --eval-every 100 --generate 400 --temperature 0.7
Every option may also stand in a TOML file (--config run.toml: `steps = 500`, `data = ["bible.txt"]`, ...).
Exit codes: 0 trained; 2 the command line, the data or a folder needs a change; 1 a rank or the network failed.)";

// Options that we parse ourselves.
struct Texts {
  std::string seed = "1";
  std::string dtype = "f32";
};

void add_model(CLI::App& app, Options& o) {
  app.add_option("--layers", o.model.layers, "Transformer blocks")->group("Model");
  app.add_option("--dim", o.model.width, "Width of the activations")->group("Model");
  app.add_option("--heads", o.model.heads, "Attention heads; must divide --dim")->group("Model");
  app.add_option("--seq", o.model.tokens, "Bytes in a sequence")->group("Model");
}

void add_training(CLI::App& app, Options& o, Texts& texts) {
  app.add_option("--data", o.data, "Text files, joined in this order")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Training");
  app.add_option("--steps", o.steps, "Optimizer steps in all, resumed ones too")->group("Training");
  app.add_option("--batch", o.batch, "Sequences in a step, over all ranks")->group("Training");
  app.add_option("--microbatch", o.microbatch, "Sequences a rank computes at once (0: its whole share)")
      ->group("Training");
  app.add_option("--lr", o.learning_rate, "Peak learning rate")->group("Training");
  app.add_option("--min-lr", o.learning_rate_min, "Last learning rate (negative: a tenth of --lr)")->group("Training");
  app.add_option("--warmup", o.warmup_steps, "Steps until the peak learning rate")->group("Training");
  app.add_option("--weight-decay", o.weight_decay, "On matrices; norms and biases have none")->group("Training");
  app.add_option("--clip", o.clip, "Largest norm of the global gradient (0: no clipping)")->group("Training");
  app.add_option("--beta2", o.beta2, "AdamW's decay of the second moment")->group("Training");
  app.add_option("--seed", texts.seed, "Of initial values and of the order of the data")->group("Training");
  app.add_option("--dtype", texts.dtype, "Operands of matrix products: f32 or bf16")->group("Training");
}

void add_running(CLI::App& app, Options& o) {
  app.add_option("--dp", o.data_parallel, "Data-parallel ranks (0: all)")->group("Running");
  app.add_option("--threads", o.threads, "Threads of each rank (0: TRIREME_THREADS, or cores / ranks on the host)")
      ->group("Running");
  app.add_option("--bucket-bytes", o.bucket_bytes, "Gradients in one all-reduce")->group("Running");
  app.add_option("--checkpoint-dir", o.checkpoint_dir, "Folder of checkpoints, seen by all ranks")->group("Running");
  app.add_option("--checkpoint-every", o.checkpoint_every, "Steps between checkpoints (0: only after the last step)")
      ->group("Running");
  app.add_option("--checkpoint-keep", o.checkpoint_keep, "Checkpoints kept")->group("Running");
  app.add_option("--resume", o.resume, "auto: the newest valid checkpoint; never; or the path of one")
      ->group("Running");
}

void add_results(CLI::App& app, Options& o) {
  app.add_option("--metrics", o.metrics, "File of one JSON object for each step")->group("Results");
  app.add_option("--eval-every", o.eval_every, "Steps between evaluations (0: only at the end)")->group("Results");
  app.add_option("--eval-batches", o.eval_batches,
                 "Batches in an evaluation before the last one (0: all text held out)")
      ->group("Results");
  app.add_option("--generate", o.generate, "Bytes of text to write at the end")->group("Results");
  app.add_option("--temperature", o.temperature, "Of that text: 0 takes the likeliest byte")->group("Results");
  app.add_option("--json", o.json, "File for a summary (- for the terminal)")->group("Results");
}

struct Bound {
  const char* flag;
  double value;
  double low;
  double high;
};

Status check_ranges(const Options& o) {
  const Bound bounds[] = {
      {"--steps", static_cast<double>(o.steps), 0, 1e12},
      {"--batch", static_cast<double>(o.batch), 1, 1e9},
      {"--microbatch", static_cast<double>(o.microbatch), 0, 1e9},
      {"--lr", o.learning_rate, 0, 1e3},
      {"--min-lr", o.learning_rate_min, -1e3, 1e3},
      {"--warmup", static_cast<double>(o.warmup_steps), 0, 1e12},
      {"--weight-decay", o.weight_decay, 0, 1e3},
      {"--clip", o.clip, 0, 1e12},
      {"--beta2", o.beta2, 0, 0.9999999},
      {"--dp", static_cast<double>(o.data_parallel), 0, 1e6},
      {"--threads", static_cast<double>(o.threads), 0, 4096},
      {"--bucket-bytes", static_cast<double>(o.bucket_bytes), 1, 1e15},
      {"--checkpoint-every", static_cast<double>(o.checkpoint_every), 0, 1e12},
      {"--checkpoint-keep", static_cast<double>(o.checkpoint_keep), 1, 1e6},
      {"--eval-every", static_cast<double>(o.eval_every), 0, 1e12},
      {"--eval-batches", static_cast<double>(o.eval_batches), 0, 1e12},
      {"--generate", static_cast<double>(o.generate), 0, 1e9},
      {"--temperature", o.temperature, 0, 1e3},
  };
  for (const Bound& bound : bounds) {
    if (bound.value >= bound.low && bound.value <= bound.high) continue;  // A NaN fails, too.
    return invalid_argument(fmt::format("{} is {}; expected {} to {}", bound.flag, bound.value, bound.low, bound.high));
  }
  return Status::ok();
}

Status check(const Options& o) {
  if (o.data.empty()) return invalid_argument("--data is missing: give one or more text files (see --help)");
  TRIREME_RETURN_IF_ERROR(o.model.check());
  TRIREME_RETURN_IF_ERROR(check_ranges(o));
  if (o.checkpoint_dir.empty() && o.checkpoint_every > 0) {
    return invalid_argument("--checkpoint-every needs --checkpoint-dir: where should checkpoints go?");
  }
  if (o.checkpoint_dir.empty() && o.resume != "auto" && o.resume != "never") {
    return invalid_argument(
        fmt::format("--resume {} needs --checkpoint-dir: where should the checkpoints of this run go?", o.resume));
  }
  return Status::ok();
}

// CLI11 clamps what is too large, and wraps what is negative.
Status parse_seed(const std::string& text, std::uint64_t& seed) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && rest == end) return Status::ok();
  return invalid_argument(
      fmt::format("--seed is {}; expected an integer from 0 to {}", text, std::numeric_limits<std::uint64_t>::max()));
}

Status parse_product_type(const std::string& text, DataType& type) {
  const Result<DataType> parsed = parse_data_type(text);
  if (parsed.is_ok() && (*parsed == DataType::f32 || *parsed == DataType::bf16)) {
    type = *parsed;
    return Status::ok();
  }
  return invalid_argument(fmt::format("--dtype {} is not supported; expected f32 or bf16", text));
}

std::string advice(const CLI::ParseError& error) {
  if (error.get_name() != "ConfigError") return fmt::format("{} (trireme-gpt --help lists all options)", error.what());
  return fmt::format(
      "--config: {} (expected lines such as `steps = 500`; trireme-gpt --show-config prints a whole file)",
      error.what());
}

}  // namespace

Result<CommandLine> parse_command_line(int argc, const char* const* argv) {
  CommandLine result;
  Options& options = result.options;
  Texts texts;
  bool show_config = false;
  CLI::App app("Trains a byte-level GPT by data parallelism.", "trireme-gpt");
  app.footer(kExamples);
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_model(app, options);
  add_training(app, options, texts);
  add_running(app, options);
  add_results(app, options);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_config("--config", "", "TOML file of options; the command line wins")->group("Running");
  app.add_flag("--show-config", show_config, "Print the options as TOML and exit")
      ->group("Running")
      ->configurable(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return CommandLine{options, true, app.help()};
  } catch (const CLI::ParseError& error) {
    return invalid_argument(advice(error));
  }
  TRIREME_RETURN_IF_ERROR(parse_seed(texts.seed, options.seed));
  TRIREME_RETURN_IF_ERROR(parse_product_type(texts.dtype, options.product_type));
  if (options.learning_rate_min < 0) options.learning_rate_min = options.learning_rate / 10;
  if (show_config) return CommandLine{options, true, app.config_to_str(true, false)};
  TRIREME_RETURN_IF_ERROR(check(options));
  return result;
}

}  // namespace trireme::gpt
