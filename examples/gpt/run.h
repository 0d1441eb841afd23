// A training run, from options to summary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <trireme/base/partition.h>
#include <trireme/base/status.h>
#include <trireme/collectives/communicator.h>
#include <trireme/parallel/byte_corpus.h>
#include <trireme/parallel/learning_rate.h>
#include <trireme/parallel/training_step.h>
#include <trireme/rendezvous/world.h>

#include "examples/gpt/checkpoints.h"
#include "examples/gpt/evaluation.h"
#include "examples/gpt/events.h"
#include "examples/gpt/metrics.h"
#include "examples/gpt/options.h"
#include "examples/gpt/progress.h"

namespace trireme::gpt {

// What a run came to.
struct Summary {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  std::int64_t skipped = 0;
  double loss = 0;              // Of the last step.
  double held_out_loss = 0;     // Nats per byte over all text held out.
  double unigram_entropy = 0;   // Of the text, nats per byte.
  double training_seconds = 0;  // Of this attempt.
  double tokens_per_second = 0;
  std::int64_t parameters = 0;
  int ranks = 1;
  int threads = 1;
  std::int64_t checkpoints_saved = 0;
  std::int64_t checkpoints_failed = 0;
  std::string resumed_from;
  std::string sample;
};
// A JSON object with the fields above.
std::string to_json(const Summary& summary);
// Says it on the terminal and writes it to `json_path` ("-": to the terminal; "": nowhere).
Status show_summary(const Summary& summary, const std::string& json_path, Progress& progress);

class Run {
 public:
  // Errors: what is wrong with options, data or folders; the world's and communicator's.
  static Result<std::unique_ptr<Run>> create(const Options& options, std::shared_ptr<World> world);
  ~Run();
  // Trains, evaluates, writes the sample and shows the summary. Collective.
  Status execute();

 private:
  Run(const Options& options, std::shared_ptr<World> world);
  Status set_up();
  Status make_trainer();
  Status train();
  Status one_step();
  Status record(const StepReport& report, double learning_rate, double step_seconds);
  // Evaluates, checkpoints: what is due after a step.
  Status after_step();
  Status note_checkpoints();
  Status note(const std::string& event, const std::string& detail, std::optional<double> held_out_loss = {});
  void fill_batch(Batch& batch);
  Status conclude();
  bool is_first() const { return world_->rank() == 0; }

  Options options_;
  std::shared_ptr<World> world_;
  Mesh mesh_;
  std::optional<ByteCorpus> corpus_;
  std::unique_ptr<ThreadPool> pool_;
  std::shared_ptr<Communicator> communicator_;  // Null when this rank is alone.
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Evaluation> evaluation_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<Progress> progress_;
  CosineSchedule schedule_;
  Range share_;  // This rank's sequences of each step's batch.
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
  Summary summary_;
  Status first_checkpoint_failure_;
  Status last_checkpoint_;
};

}  // namespace trireme::gpt
