// What coordinator and shim say to each other.
//
// The coordinator decides (start, signal, end); a shim parents the ranks of one host,
// does what it is told and reports what happened. They share nothing but these values,
// so whether they live in one process, on one host or on two is the link's business.
// Every message about ranks carries the epoch it belongs to, and a receiver drops those
// of another epoch. Thread safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/platform/api/process.h"

namespace trireme {

// Both ends must speak the same version; the shim refuses another by name.
inline constexpr std::uint32_t kProtocolVersion = 2;

// Which rank reads the launcher's standard input.
enum class StdinMode : std::uint8_t { none, one, all };

// A job as one shim sees it. Sent once, in Configure.
struct JobSpec {
  std::string job_id;
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value"; the ranks' own variables come on top.
  std::string working_directory;         // "": the shim's own.
  std::string host;                      // As it appears in tags and reports.
  int world_size = 0;
  int node_rank = 0;
  std::vector<int> ranks;  // This host's, in order of local rank.
  std::string store_address;
  std::string secret;  // Goes to ranks by a sealed descriptor, never by argv or environment.
  StdinMode stdin_mode = StdinMode::none;
  int stdin_rank = 0;
  bool tag_output = true;
  std::string output_directory;  // "": no files.
  bool operator==(const JobSpec&) const = default;
};

namespace message {

// To the shim.
struct Configure {
  std::uint32_t version = kProtocolVersion;
  JobSpec job;
};
// Answered by one RankStarted or StartFailed for every rank of the shim.
struct StartAttempt {
  std::int64_t epoch = 0;
  int attempt = 0;
};
// To the ranks' own processes, not to what they started.
struct SignalRanks {
  std::int64_t epoch = 0;
  int signal = 0;
};
// To every process the ranks left behind.
struct SignalLeftovers {
  std::int64_t epoch = 0;
  int signal = 0;
};
// SIGKILL for the ranks and all their descendants.
struct KillAll {
  std::int64_t epoch = 0;
};
// Answered by Recordings, at once; and the shim writes what its ranks' flight recorders
// hold beside their output when the attempt is over.
struct CollectRecordings {
  std::int64_t epoch = 0;
};
// A line for people, on standard error and in the merged file.
struct Notice {
  std::string text;
};
// No more attempts: write out what is pending, close the link, end.
struct Shutdown {};

// From the shim.
struct RankStarted {
  std::int64_t epoch = 0;
  int rank = 0;
  std::int64_t pid = 0;
};
struct StartFailed {
  std::int64_t epoch = 0;
  int rank = 0;
  bool is_cause = false;  // False: not tried, because another rank could not be started.
  std::string message;
};
struct RankExited {
  std::int64_t epoch = 0;
  int rank = 0;
  ExitState exit;
  std::vector<std::string> last_lines;
};
// The shim's ranks as it sees them and as their flight recorders do: RankViews in JSON
// (runtime/telemetry/api/inspect.h), with the last calls only.
struct Recordings {
  std::int64_t epoch = 0;
  std::vector<std::string> views;
};
// Every rank of the attempt has ended, and so has every process it left behind.
struct Quiet {
  std::int64_t epoch = 0;
  bool lost_files = false;  // Files of output or the exit record could not be written whole.
};
// The launcher's standard output cannot be written any more (its reader is gone, its disk is full).
struct OutputClosed {
  std::string reason;
};

}  // namespace message

using Message =
    std::variant<message::Configure, message::StartAttempt, message::SignalRanks, message::SignalLeftovers,
                 message::KillAll, message::CollectRecordings, message::Notice, message::Shutdown, message::RankStarted,
                 message::StartFailed, message::RankExited, message::Recordings, message::Quiet, message::OutputClosed>;

// A message's first byte is its kind (its position in Message), the fields follow as
// runtime/base/wire.h encodes them.
std::string encode(const Message& message);
// Errors: data_loss for bytes that are no message.
Result<Message> decode(std::string_view bytes);

}  // namespace trireme
