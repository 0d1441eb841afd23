#include "runtime/telemetry/api/metrics_exporter.h"

#include <poll.h>

#include <charconv>

#include <fmt/core.h>
#include <trireme/platform/clock.h>
#include <trireme/platform/environment.h>

#include "runtime/platform/api/files.h"
#include "runtime/platform/api/process.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme {
namespace {

constexpr std::size_t kLongestRequest = 8192;
constexpr std::uint64_t kClientMs = 2000;

std::optional<int> port_number(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 0 || port > 65535) return std::nullopt;
  return port;
}

Result<Listener> listen(const std::string& address) {
  if (const auto port = port_number(address); port) {
    TRIREME_ASSIGN_OR_RETURN(const SocketAddress all, SocketAddress::tcp("0.0.0.0", *port));
    return Listener::listen(all);
  }
  Result<SocketAddress> parsed = SocketAddress::parse(address);
  if (!parsed.is_ok()) {
    return invalid_argument(
        fmt::format("TRIREME_METRICS_PORT={}: expected a port, 0 for a free one, or ADDRESS:PORT", address));
  }
  return Listener::listen(*parsed);
}

std::string response(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                     type, body.size(), body);
}

// Reads a request's head; "" when there is none in time.
std::string read_request(Socket& client, Deadline deadline) {
  std::string request;
  char buffer[1024];
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (request.size() > kLongestRequest) return "";
    const Result<std::size_t> got = client.receive_some(buffer, sizeof buffer);
    if (!got.is_ok()) return "";
    request.append(buffer, *got);
    if (*got > 0) continue;
    pollfd entry{client.fd(), POLLIN, 0};
    if (deadline.expired() || ::poll(&entry, 1, deadline.remaining_ms()) < 0) return "";
  }
  return request;
}

}  // namespace

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::start(MetricsOptions options,
                                                                std::function<std::string()> source) {
  std::unique_ptr<MetricsExporter> exporter(new MetricsExporter(std::move(options), std::move(source)));
  if (!exporter->options_.address.empty()) {
    TRIREME_ASSIGN_OR_RETURN(exporter->listener_, listen(exporter->options_.address));
  }
  TRIREME_ASSIGN_OR_RETURN(auto ends, connected_pair());
  exporter->wake_ = std::move(ends.first);
  exporter->woken_ = std::move(ends.second);
  exporter->thread_ = std::thread([self = exporter.get()] { self->run(); });
  return exporter;
}

MetricsExporter::~MetricsExporter() {
  if (!thread_.joinable()) return;  // It could not start.
  wake_.shutdown();
  thread_.join();
}

std::string MetricsExporter::url() const {
  if (!listener_) return "";
  const std::string host = listener_->address().host();
  return fmt::format("http://{}:{}/metrics", host == "0.0.0.0" ? host_name() : host, listener_->address().port());
}

void MetricsExporter::run() {
  Deadline next = Deadline::after_ms(0);
  for (;;) {
    if (next.expired()) {
      write();
      next = options_.file.empty() ? Deadline::never() : Deadline::after_ms(options_.interval_ms);
    }
    pollfd entries[2] = {{woken_.fd(), POLLIN, 0}, {listener_ ? listener_->fd() : -1, POLLIN, 0}};
    ::poll(entries, 2, next.remaining_ms());
    if (entries[0].revents != 0) return write();  // The last word.
    if (entries[1].revents == 0) continue;
    Result<Socket> client = listener_->try_accept();
    if (client.is_ok() && client->valid()) serve(*std::move(client));
  }
}

void MetricsExporter::serve(Socket client) {
  const Deadline deadline = Deadline::after_ms(kClientMs);
  const std::string request = read_request(client, deadline);
  const std::string line = request.substr(0, request.find("\r\n"));
  std::string answer;
  if (line.rfind("GET /metrics", 0) == 0 && line.find_first_of(" ?", 12) == 12) {
    answer = response("200 OK", "text/plain; version=0.0.4; charset=utf-8", source_());
  } else if (line.rfind("GET ", 0) == 0) {
    answer = response("404 Not Found", "text/plain", "Trireme's metrics are at /metrics\n");
  } else if (!line.empty()) {
    answer = response("405 Method Not Allowed", "text/plain", "GET /metrics\n");
  }
  // A client that has gone meanwhile loses nothing that we could help.
  if (!answer.empty()) static_cast<void>(client.send_all(answer.data(), answer.size(), deadline));
}

// A full disk must not end a job; it is told once, until something else is wrong.
void MetricsExporter::write() {
  if (options_.file.empty()) return;
  const Status status = write_file_atomically(options_.file, source_());
  const std::string error = status.is_ok() ? "" : status.to_string();
  if (!error.empty() && error != last_error_) {
    TRIREME_LOG_WARN("metrics", "the metrics could not be written (TRIREME_METRICS_FILE): {}", error);
  }
  last_error_ = error;
}

MetricsOptions metrics_options_from_environment(int rank, int size, int local_rank) {
  MetricsOptions options;
  options.file = environment("TRIREME_METRICS_FILE").value_or("");
  options.address = environment("TRIREME_METRICS_PORT").value_or("");
  if (rank < 0) return options;
  const std::size_t place = options.file.find("%r");
  if (place != std::string::npos) {
    options.file.replace(place, 2, std::to_string(rank));
  } else if (!options.file.empty() && size > 1) {
    const std::size_t name = options.file.rfind('/') == std::string::npos ? 0 : options.file.rfind('/') + 1;
    const std::size_t dot = options.file.rfind('.');
    options.file.insert(dot == std::string::npos || dot <= name ? options.file.size() : dot,
                        fmt::format("-rank-{}", rank));
  }
  // The ranks of one host that listen for themselves count up from the port.
  if (const auto port = port_number(options.address); port && *port != 0) {
    options.address = std::to_string(*port + local_rank);
  }
  return options;
}

}  // namespace trireme
