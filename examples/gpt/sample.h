// Text written by a model.
#pragma once

#include <cstdint>
#include <string>

#include <trireme/base/status.h>
#include <trireme/parallel/training_step.h>

namespace trireme::gpt {

// Continues `prompt` (at least one byte) by `bytes` bytes; returns what was added. The
// n-th byte is drawn with the n-th random number of (seed, generation), so the same model
// writes the same text. Temperature 0 takes the likeliest byte. No gradients; the last
// `context` bytes are read for each byte.
Result<std::string> generate(Trainer& trainer, const std::string& prompt, std::int64_t bytes, double temperature,
                             std::uint64_t seed, std::int64_t context);

// The index drawn from softmax(logits / temperature) by `uniform` in [0, 1).
std::int32_t draw(std::span<const float> logits, double temperature, double uniform);

// `text` with what a terminal must not see replaced by '?'.
std::string printable(const std::string& text);

}  // namespace trireme::gpt
