// ByteCorpus: text as training data, one token per byte.
//
// Files are read whole and joined. The last twentieth (at least one sequence and a
// byte) is held out. Which bytes the n-th training sequence of a run holds is a pure
// function of (seed, n): the global order of the data does not depend on the number of
// ranks, nor on where a run was interrupted.
// Thread safety: const methods from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

class ByteCorpus {
 public:
  // Errors: not_found naming the missing file; invalid_argument when the text is too
  // short for one training and one held-out sequence, with the bytes there and needed.
  static Result<ByteCorpus> load(const std::vector<std::string>& paths, std::int64_t tokens_per_sequence);
  static Result<ByteCorpus> from_text(std::string text, std::int64_t tokens_per_sequence);

  std::int64_t training_bytes() const { return static_cast<std::int64_t>(text_.size()) - held_out_bytes_; }
  std::int64_t held_out_bytes() const { return held_out_bytes_; }
  // A hash of all bytes: tells one text from another.
  std::uint64_t fingerprint() const;
  // Of the distribution of single bytes over the whole text, in nats per byte.
  double unigram_entropy() const;

  // Where training sequence `ordinal` starts.
  std::int64_t training_position(std::uint64_t seed, std::uint64_t ordinal) const;
  // Writes tokens_per_sequence tokens and as many targets (the tokens one further on).
  void training_sequence(std::uint64_t seed, std::uint64_t ordinal, std::int32_t* tokens, std::int32_t* targets) const;
  // Held-out sequences follow each other without overlap.
  std::int64_t held_out_sequences() const { return (held_out_bytes_ - 1) / tokens_per_sequence_; }
  void held_out_sequence(std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const;
  // The first bytes of the held-out text: a prompt.
  std::string held_out_prompt(std::int64_t bytes) const;

 private:
  void copy(std::int64_t position, std::int32_t* tokens, std::int32_t* targets) const;
  std::string text_;
  std::int64_t held_out_bytes_ = 0;
  std::int64_t tokens_per_sequence_ = 0;
};

}  // namespace trireme
