// A World's flight recorder: opened when the rank knows who it is, told of the first
// failure, and written to the folder TRIREME_RECORDER_DIR then (once), for launchers that
// do not keep recorders themselves. For the same launchers it exports its metrics.
// Thread safety: recorder() from any thread.
#pragma once

#include <memory>
#include <string>

#include <trireme/rendezvous/world.h>

#include "runtime/rendezvous/failure_board.h"
#include "runtime/telemetry/api/metrics_exporter.h"
#include "runtime/telemetry/api/recorder.h"

namespace trireme::store {

class RankRecorder {
 public:
  // `is_process`: this rank is the whole process, so what the launcher handed down
  // (TRIREME_RECORDER_FD) is for it.
  RankRecorder(const PeerInfo& self, int size, const std::string& job_id, std::int64_t epoch, bool is_process,
               FailureBoard& failures);
  ~RankRecorder();  // Leaves in order.
  const std::shared_ptr<Recorder>& recorder() const { return recorder_; }

 private:
  void export_metrics(const RecorderIdentity& identity);

  std::shared_ptr<Recorder> recorder_;
  std::shared_ptr<void> subscription_;
  std::unique_ptr<MetricsExporter> exporter_;  // When no shim does it for all ranks of the host.
};

}  // namespace trireme::store
