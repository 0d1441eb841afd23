// MetricsExporter: hands out metrics as Prometheus takes them: a file that is replaced
// every few seconds (node-exporter's textfile collector), an HTTP endpoint
// (GET /metrics), or both. One thread, which does nothing but that.
// Thread safety: start and destruction on one thread; `source` is called on the exporter's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <trireme/base/status.h>

#include "runtime/platform/api/sockets.h"

namespace trireme {

struct MetricsOptions {
  std::string file;     // "": none. Written at once, every interval and at the end.
  std::string address;  // "": no endpoint; "9400", "0", "127.0.0.1:9400". A bare port listens on all interfaces.
  std::uint64_t interval_ms = 5000;
  bool wanted() const { return !file.empty() || !address.empty(); }
};

class MetricsExporter {
 public:
  // Errors: those of listening, and invalid_argument for an address that is none.
  static Result<std::unique_ptr<MetricsExporter>> start(MetricsOptions options, std::function<std::string()> source);
  ~MetricsExporter();
  MetricsExporter(const MetricsExporter&) = delete;
  MetricsExporter& operator=(const MetricsExporter&) = delete;

  // "http://node1:9400/metrics", or "" without an endpoint.
  std::string url() const;

 private:
  MetricsExporter(MetricsOptions options, std::function<std::string()> source)
      : options_(std::move(options)), source_(std::move(source)) {}
  void run();
  void serve(Socket client);
  void write();

  const MetricsOptions options_;
  const std::function<std::string()> source_;
  std::optional<Listener> listener_;
  Socket wake_;   // Closed to end the thread,
  Socket woken_;  // which sees it here.
  std::string last_error_;
  std::thread thread_;
};

// TRIREME_METRICS_FILE and TRIREME_METRICS_PORT. In a file's name %r is the rank; without
// it, ranks of a larger world that write for themselves get "-rank-K" before the suffix.
// `rank` -1: for all ranks of a host, as the shim does.
MetricsOptions metrics_options_from_environment(int rank, int size, int local_rank);

}  // namespace trireme
