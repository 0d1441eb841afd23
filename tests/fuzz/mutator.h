// Deterministic mutation of structured bytes: from a corpus of valid inputs, inputs that
// are nearly right. The same seed gives the same inputs on every machine.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace trireme::test {

class Mutator {
 public:
  Mutator(std::uint64_t seed, std::vector<std::string> corpus) : random_(seed), corpus_(std::move(corpus)) {}

  // One of the corpus with one to four changes: bits flipped, integers set to values at the
  // edges of what fits, slices removed, repeated, exchanged with another input's, cut or
  // lengthened.
  std::string next();
  const std::string& original() { return corpus_[below(corpus_.size())]; }
  // 0 .. limit - 1
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::string junk(std::size_t most_bytes);

 private:
  void change(std::string& text);
  void set_integer(std::string& text);

  std::mt19937_64 random_;
  std::vector<std::string> corpus_;
};

}  // namespace trireme::test
