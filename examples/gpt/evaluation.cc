#include "examples/gpt/evaluation.h"

#include <algorithm>

#include <trireme/base/partition.h>

namespace trireme::gpt {

Evaluation::Evaluation(const ByteCorpus& corpus, Trainer& trainer, Communicator* communicator,
                       std::int64_t sequences_at_once, std::int64_t tokens_per_sequence)
    : corpus_(corpus),
      trainer_(trainer),
      communicator_(communicator),
      sequences_at_once_(sequences_at_once),
      tokens_per_sequence_(tokens_per_sequence),
      tokens_(static_cast<std::size_t>(sequences_at_once * tokens_per_sequence)),
      targets_(tokens_.size()) {}

Result<double> Evaluation::run(std::int64_t sequences) {
  const std::int64_t there = corpus_.held_out_sequences();
  const std::int64_t count = sequences == 0 ? there : std::min(sequences, there);
  Range mine{0, count};
  if (communicator_ != nullptr) mine = balanced_part(count, communicator_->rank(), communicator_->size());
  TRIREME_ASSIGN_OR_RETURN(double loss_sum, local_loss(mine.begin, mine.end));
  if (communicator_ != nullptr) {
    TRIREME_RETURN_IF_ERROR(communicator_->all_reduce(&loss_sum, &loss_sum, 1, DataType::f64, ReduceOp::sum));
  }
  return loss_sum / static_cast<double>(count * tokens_per_sequence_);
}

Result<double> Evaluation::local_loss(std::int64_t begin, std::int64_t end) {
  double loss_sum = 0;
  for (std::int64_t first = begin; first < end; first += sequences_at_once_) {
    const std::int64_t count = std::min(sequences_at_once_, end - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t offset = i * tokens_per_sequence_;
      corpus_.held_out_sequence(first + i, tokens_.data() + offset, targets_.data() + offset);
    }
    TRIREME_ASSIGN_OR_RETURN(const double loss, trainer_.evaluate(tokens_.data(), targets_.data(), count));
    loss_sum += loss;
  }
  return loss_sum;
}

}  // namespace trireme::gpt
