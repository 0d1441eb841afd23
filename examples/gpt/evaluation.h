// Loss on held-out text, by all ranks together.
#pragma once

#include <cstdint>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>
#include <trireme/parallel/byte_corpus.h>
#include <trireme/parallel/training_step.h>

namespace trireme::gpt {

// The first `sequences` held-out sequences (0: all), each evaluated by one rank; the mean
// loss in nats per byte, the same on every rank. Collective. Thread safety: one thread.
class Evaluation {
 public:
  // At most `sequences_at_once` are in memory. All references outlive this object;
  // `communicator` may be nullptr for one rank.
  Evaluation(const ByteCorpus& corpus, Trainer& trainer, Communicator* communicator, std::int64_t sequences_at_once,
             std::int64_t tokens_per_sequence);
  // Errors: the communicator's.
  Result<double> run(std::int64_t sequences);

 private:
  Result<double> local_loss(std::int64_t begin, std::int64_t end);
  const ByteCorpus& corpus_;
  Trainer& trainer_;
  Communicator* communicator_;
  std::int64_t sequences_at_once_;
  std::int64_t tokens_per_sequence_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
};

}  // namespace trireme::gpt
