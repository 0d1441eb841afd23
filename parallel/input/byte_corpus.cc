#include <trireme/parallel/byte_corpus.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include <trireme/base/hash.h>
#include <trireme/base/philox.h>
#include <trireme/parallel/parameters.h>

#include "runtime/platform/api/files.h"

namespace trireme {

Result<ByteCorpus> ByteCorpus::load(const std::vector<std::string>& paths, std::int64_t tokens_per_sequence) {
  std::string text;
  for (const std::string& path : paths) {
    TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(path));
    if (!info.exists) return not_found(fmt::format("data file {} does not exist; --data takes text files", path));
    if (info.is_directory) return invalid_argument(fmt::format("data file {} is a folder; --data takes files", path));
    Result<std::string> contents = read_file(path);
    if (!contents.is_ok()) return contents.status().with_context(fmt::format("data file {}", path));
    text += contents.value();
  }
  return from_text(std::move(text), tokens_per_sequence);
}

Result<ByteCorpus> ByteCorpus::from_text(std::string text, std::int64_t tokens_per_sequence) {
  const auto bytes = static_cast<std::int64_t>(text.size());
  const std::int64_t needed = tokens_per_sequence + 1;
  ByteCorpus corpus;
  corpus.held_out_bytes_ = std::max(bytes / 20, needed);
  if (bytes - corpus.held_out_bytes_ < needed) {
    return invalid_argument(
        fmt::format("the data holds {} bytes, but --seq {} needs at least {}: one sequence to train on and one held "
                    "out. Give more data or a shorter --seq",
                    bytes, tokens_per_sequence, 2 * needed));
  }
  corpus.text_ = std::move(text);
  corpus.tokens_per_sequence_ = tokens_per_sequence;
  return corpus;
}

std::uint64_t ByteCorpus::fingerprint() const {
  return hash64(text_);
}

double ByteCorpus::unigram_entropy() const {
  std::array<std::int64_t, 256> counts{};
  for (char c : text_) ++counts[static_cast<unsigned char>(c)];
  double entropy = 0;
  for (std::int64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(text_.size());
    entropy -= p * std::log(p);
  }
  return entropy;
}

std::int64_t ByteCorpus::training_position(std::uint64_t seed, std::uint64_t ordinal) const {
  const PhiloxKey key = make_philox_key(seed, static_cast<std::uint32_t>(RandomPurpose::sampling), 0);
  const auto starts = static_cast<std::uint64_t>(training_bytes() - tokens_per_sequence_);
  return static_cast<std::int64_t>(philox_below(key, ordinal, 0, starts));
}

void ByteCorpus::training_sequence(std::uint64_t seed, std::uint64_t ordinal, std::int32_t* tokens,
                                   std::int32_t* targets) const {
  copy(training_position(seed, ordinal), tokens, targets);
}

void ByteCorpus::held_out_sequence(std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const {
  copy(training_bytes() + index * tokens_per_sequence_, tokens, targets);
}

std::string ByteCorpus::held_out_prompt(std::int64_t bytes) const {
  return text_.substr(static_cast<std::size_t>(training_bytes()),
                      static_cast<std::size_t>(std::min(bytes, held_out_bytes_)));
}

void ByteCorpus::copy(std::int64_t position, std::int32_t* tokens, std::int32_t* targets) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text_.data()) + position;
  for (std::int64_t i = 0; i < tokens_per_sequence_; ++i) {
    tokens[i] = bytes[i];
    targets[i] = bytes[i + 1];
  }
}

}  // namespace trireme
