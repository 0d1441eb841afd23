// An independent GPT-2 forward pass in double precision, written from the equations with
// plain loops, for comparison: nothing of the code under test is used but its layout.
#pragma once

#include <cstdint>
#include <vector>

#include <trireme/parallel/model.h>

namespace trireme::test {

class ReferenceGpt {
 public:
  ReferenceGpt(const GptConfig& config, const ParameterLayout& layout) : config_(config), layout_(layout) {}

  // Sum of the losses over the targets that are not ignored. `parameters` is laid out as
  // `layout` says; tokens and targets are [sequences, tokens].
  double loss_sum(const std::vector<double>& parameters, const std::vector<std::int32_t>& tokens,
                  const std::vector<std::int32_t>& targets, std::int64_t sequences, std::int64_t tokens_per_sequence);

 private:
  using Matrix = std::vector<double>;  // Row-major, one row a token.
  const double* parameter(const std::string& name) const;
  Matrix norm(const Matrix& x, const std::string& name) const;
  Matrix linear(const Matrix& x, const std::string& name, std::int64_t in, std::int64_t out) const;
  Matrix attention(const Matrix& qkv, std::int64_t tokens) const;
  double sequence_loss(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t count) const;

  const GptConfig& config_;
  const ParameterLayout& layout_;
  const std::vector<double>* parameters_ = nullptr;
};

}  // namespace trireme::test
