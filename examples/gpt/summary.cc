// What a run says when it is done.
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <trireme/base/units.h>

#include "examples/gpt/run.h"
#include "examples/gpt/sample.h"
#include "runtime/platform/api/files.h"

namespace trireme::gpt {

namespace {

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace

std::string to_json(const Summary& s) {
  const nlohmann::json object = {
      {"steps", s.steps},
      {"tokens", s.tokens},
      {"skipped", s.skipped},
      {"loss", number(s.loss)},
      {"held_out_loss", number(s.held_out_loss)},
      {"unigram_entropy", number(s.unigram_entropy)},
      {"training_seconds", number(s.training_seconds)},
      {"tokens_per_second", number(s.tokens_per_second)},
      {"parameters", s.parameters},
      {"ranks", s.ranks},
      {"threads", s.threads},
      {"checkpoints_saved", s.checkpoints_saved},
      {"checkpoints_failed", s.checkpoints_failed},
      {"resumed_from", s.resumed_from},
      {"sample", printable(s.sample)},
  };
  return object.dump(2) + "\n";
}

Status show_summary(const Summary& summary, const std::string& json_path, Progress& progress) {
  progress.say(fmt::format("trained {} steps on {} tokens in {} ({:.0f} tokens/s)", summary.steps, summary.tokens,
                           format_duration_ms(static_cast<std::uint64_t>(summary.training_seconds * 1e3)),
                           summary.tokens_per_second));
  progress.say(fmt::format("held-out loss {:.4f} nats per byte; unigram entropy of the text {:.4f} nats per byte",
                           summary.held_out_loss, summary.unigram_entropy));
  if (!summary.sample.empty()) progress.say("sample:\n" + printable(summary.sample));
  if (json_path == "-") {
    progress.say(to_json(summary));
  } else if (!json_path.empty()) {
    return write_file_atomically(json_path, to_json(summary)).with_context("summary");
  }
  return Status::ok();
}

}  // namespace trireme::gpt
