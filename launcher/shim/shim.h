// Shim: parents the ranks of one job on one host, and answers for what they leave.
//
// It starts, signals and kills as the coordinator says, carries the ranks' input and
// output, and reports each end. It is the reaper of all that the ranks start, so when
// it says Quiet nothing of the attempt is left, detached or not. If the coordinator's
// end of the link closes, the shim kills everything and ends.
// Thread safety: none; one thread.
#pragma once

#include <memory>
#include <vector>

#include <trireme/base/status.h>

#include "launcher/protocol/link.h"
#include "launcher/protocol/messages.h"
#include "launcher/shim/exit_record.h"
#include "launcher/shim/output_router.h"
#include "launcher/shim/rank_process.h"
#include "launcher/shim/rank_view.h"
#include "launcher/shim/stdin_source.h"
#include "launcher/system/event_loop.h"
#include "launcher/system/signals.h"
#include "runtime/telemetry/api/metrics_exporter.h"

namespace trireme {

class Shim {
 public:
  // Serves the coordinator at the other end of `socket` until it says Shutdown or is
  // gone. The caller's process must be a fresh one, without children or threads.
  static Status run(Socket socket);

 private:
  Shim() = default;
  Status start(Socket socket);
  void on_message(const Message& message);
  void on(const message::Configure& configure);
  void on(const message::StartAttempt& start);
  void on(const message::SignalRanks& signal);
  void on(const message::SignalLeftovers& signal);
  void on(const message::KillAll& kill);
  void on(const message::CollectRecordings& collect);
  void on(const message::Notice& notice);
  void on(const message::Shutdown&);
  // What only a coordinator receives.
  template <typename M>
  void on(const M&) {
    end_with(data_loss("the coordinator sent a message that only a shim sends"));
  }

  Status start_rank(int local);
  void report_not_started(int failed_local, const Status& why);
  void watch_output(int local, OutputStream stream);
  void read_output(int local, OutputStream stream);
  void set_reading(bool reading);
  void on_rank_end(int local);
  bool reap();
  void check_quiet();
  void kill_until_quiet();
  void close_attempt();
  void write_recordings();
  void export_metrics();
  void end_with(Status status);

  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<SignalReceiver> child_signals_;
  std::unique_ptr<Link> link_;
  JobSpec job_;
  std::unique_ptr<OutputRouter> router_;
  std::unique_ptr<StdinSource> stdin_;
  UniqueFd secret_;
  message::StartAttempt attempt_;
  std::vector<RankProcess> ranks_;
  ExitRecord record_;
  std::shared_ptr<RecorderSet> recorders_ = std::make_shared<RecorderSet>();
  std::unique_ptr<MetricsExporter> exporter_;
  int running_ = 0;
  bool lost_files_ = false;
  bool quiet_ = true;  // No attempt, or its Quiet has been sent.
  bool killing_ = false;
  bool keep_recordings_ = false;  // They were asked for: something went wrong.
  bool reading_ = true;           // False while the readers of our output are far behind.
  bool shutdown_ = false;
  bool done_ = false;
  Status result_;
};

}  // namespace trireme
