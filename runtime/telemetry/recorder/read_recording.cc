// From a recorder's memory to values. Pages never written are never touched, since a read
// through a mapping would make the kernel provide them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>

#include <fmt/core.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/system.h"
#include "runtime/telemetry/api/recording.h"

namespace trireme {

using namespace recorder_layout;

namespace {

constexpr int kTries = 64;

class Mapping {
 public:
  Mapping(int fd, std::size_t offset, std::size_t bytes)
      : bytes_(bytes), memory_(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset))) {}
  ~Mapping() {
    if (valid()) ::munmap(memory_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool valid() const { return memory_ != MAP_FAILED; }
  template <typename T>
  const T& as() const {
    return *static_cast<const T*>(memory_);
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

// Ticks of this host as wall-clock nanoseconds. The counter's rate comes from the time
// since the rank joined, once that is long enough to beat a calibration on the spot.
class Times {
 public:
  explicit Times(const Header& header)
      : ticks_(tsc_now()), now_ns_(system_clock().now_ns()), wall_ns_(wall_clock_ns()) {
    const std::uint64_t ticks = header.anchor_ticks.load();
    const std::uint64_t ns = header.anchor_ns.load();
    if (ticks == 0 || ticks >= ticks_ || ns >= now_ns_ || now_ns_ - ns < kLongBaselineNs) return;
    const double rate = static_cast<double>(now_ns_ - ns) / static_cast<double>(ticks_ - ticks);
    const double expected = static_cast<double>(tsc_to_ns(kSomeTicks)) / static_cast<double>(kSomeTicks);
    if (rate > expected * 0.99 && rate < expected * 1.01) ns_per_tick_ = rate;
  }
  std::int64_t now() const { return wall_ns_; }
  std::int64_t at(std::uint64_t ticks) const {
    if (ticks == 0) return 0;
    // A stamp of the future was written while we read, or is garbage.
    return ticks >= ticks_ ? wall_ns_ : std::max<std::int64_t>(1, wall_ns_ - ago(ticks_ - ticks));
  }

 private:
  static constexpr std::uint64_t kLongBaselineNs = 200'000'000;
  static constexpr std::uint64_t kSomeTicks = 1ULL << 40;
  std::int64_t ago(std::uint64_t ticks) const {
    const double ns =
        ns_per_tick_ > 0 ? static_cast<double>(ticks) * ns_per_tick_ : static_cast<double>(tsc_to_ns(ticks));
    return ns < static_cast<double>(wall_ns_) ? static_cast<std::int64_t>(ns) : wall_ns_;
  }
  std::uint64_t ticks_;
  std::uint64_t now_ns_;
  std::int64_t wall_ns_;
  double ns_per_tick_ = 0;
};

int high(std::uint64_t word) {
  return static_cast<int>(static_cast<std::uint32_t>(word >> 32));
}
int low(std::uint64_t word) {
  return static_cast<int>(static_cast<std::uint32_t>(word));
}

// Ranks are kept plus one, so that 0 is none.
int rank_of(std::uint64_t plus_one) {
  return plus_one > INT32_MAX ? -1 : static_cast<int>(plus_one) - 1;
}

// The names that operations and algorithms have in this file, each read once.
class Names {
 public:
  explicit Names(const Header& header) : header_(header) {}
  const std::string& op(std::size_t i) { return lookup(ops_, i, i < kOps ? header_.ops[i].load() : ""); }
  const std::string& algorithm(std::size_t i) {
    return lookup(algorithms_, i, i < kAlgorithms ? header_.algorithms[i].load() : "");
  }
  const std::string& transports(std::size_t i) {
    return lookup(transports_, i, i < kTransportSets ? header_.transports[i].load() : "");
  }

 private:
  static const std::string& lookup(std::map<std::size_t, std::string>& known, std::size_t i, std::string name) {
    const auto found = known.find(i);
    if (found != known.end()) return found->second;
    if (name.empty()) name = fmt::format("#{}", i);
    return known.emplace(i, std::move(name)).first->second;
  }
  const Header& header_;
  std::map<std::size_t, std::string> ops_;
  std::map<std::size_t, std::string> algorithms_;
  std::map<std::size_t, std::string> transports_;
};

// False when the writer was at it all the time, or has taken the place for a later call.
bool read_call(const Call& call, std::uint64_t index, Names& names, const Times& times, RecordedCall& out) {
  const std::uint64_t expected = (2 * (index / kCalls + 1)) & 0xffffffff;
  std::array<std::uint64_t, 8> words{};
  words[kHead] = call.words[kHead].load(std::memory_order_acquire);
  if (words[kHead] >> 32 != expected) return false;
  for (std::size_t i = 1; i < words.size(); ++i) words[i] = call.words[i].load(std::memory_order_acquire);
  if (call.words[kHead].load(std::memory_order_acquire) >> 32 != expected) return false;
  const std::uint64_t head = words[kHead];
  const auto state = static_cast<std::uint8_t>(head >> 24);
  const auto type = static_cast<std::uint8_t>(head >> 8);
  const auto reduction = static_cast<std::uint8_t>(head);
  if (state > 3 || type >= kDataTypeCount || reduction >= kReduceOpCount) return false;
  out.index = index;
  out.sequence = words[kSequence];
  out.op = names.op(static_cast<std::uint8_t>(head >> 16));
  out.type = static_cast<DataType>(type);
  out.reduction = static_cast<ReduceOp>(reduction);
  out.count = words[kCount];
  out.root = high(words[kPeers]);
  out.tag = low(words[kPeers]);
  out.state = static_cast<CallState>(state);
  out.entered_ns = times.at(words[kEntered]);
  out.started_ns = state == 0 ? 0 : times.at(words[kStarted]);
  out.ended_ns = out.pending() ? 0 : times.at(words[kEnded]);
  if (words[kStarted] != 0 && out.sequence != 0)
    out.algorithm = names.algorithm(static_cast<std::uint8_t>(words[kWaits]));
  out.waits_for = rank_of(words[kWaits] >> 32);
  return true;
}

std::vector<int> read_members(const Channel& channel, int size) {
  const std::uint64_t told = channel.members.load();
  std::vector<int> members;
  if (told == kUnknownMembers || size <= 0) return members;
  const bool listed = told == kExplicitMembers;
  if (listed && static_cast<std::size_t>(size) > kListedMembers) return members;
  members.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) {
    const std::int64_t regular = std::int64_t{high(told)} + std::int64_t{i} * low(told);
    const std::uint64_t pair = listed ? channel.member_list[static_cast<std::size_t>(i) / 2].load() : 0;
    members.push_back(listed ? (i % 2 == 0 ? low(pair) : high(pair)) : static_cast<int>(regular));
  }
  return members;
}

void read_rows(const Row* rows, std::size_t count, Names& names, std::vector<CallCounters>& into) {
  for (std::size_t i = 0; i < count; ++i) {
    const Row& row = rows[i];
    const std::uint64_t key = row.key.load(std::memory_order_acquire);
    if (key == 0) break;
    CallCounters counters;
    counters.op = names.op(static_cast<std::uint8_t>(key >> 8));
    counters.algorithm = names.algorithm(static_cast<std::uint8_t>(key));
    counters.transports = names.transports(static_cast<std::uint16_t>(key >> 16));
    counters.failures = row.failures.load(std::memory_order_relaxed);
    counters.bytes = row.bytes.load(std::memory_order_relaxed);
    counters.nanoseconds = row.nanoseconds.load(std::memory_order_relaxed);
    for (std::size_t b = 0; b < kBuckets; ++b) counters.buckets[b] = row.buckets[b].load(std::memory_order_relaxed);
    const auto same = std::find_if(into.begin(), into.end(), [&](const CallCounters& known) {
      return known.op == counters.op && known.algorithm == counters.algorithm &&
             known.transports == counters.transports;
    });
    if (same == into.end()) {
      into.push_back(std::move(counters));
      continue;
    }
    same->failures += counters.failures;
    same->bytes += counters.bytes;
    same->nanoseconds += counters.nanoseconds;
    for (std::size_t b = 0; b < kBuckets; ++b) same->buckets[b] += counters.buckets[b];
  }
}

// One reading of one channel; false when it changed hands meanwhile.
bool read_channel(const Channel& channel, Names& names, const Times& times, const ReadLimits& limits, Recording& into) {
  const std::uint64_t version = channel.version.load(std::memory_order_acquire);
  RecordedCommunicator communicator;
  communicator.open = version % 2 == 1;
  communicator.context = channel.context.load();
  communicator.size = high(channel.place.load());
  communicator.rank = low(channel.place.load());
  communicator.transports = names.transports(channel.transports.load());
  const int most = std::max(into.identity.size, 1);
  if (communicator.size < 0 || communicator.size > most) communicator.size = 0;
  communicator.members = read_members(channel, communicator.size);
  // The numbers of the calls first, then the calls: those overwritten meanwhile drop out.
  communicator.done_sequence = channel.done_sequence.load(std::memory_order_acquire);
  communicator.calls = channel.head.load(std::memory_order_acquire);
  const std::uint64_t kept = std::min<std::uint64_t>({communicator.calls, kCalls, limits.calls});
  for (std::uint64_t index = communicator.calls - kept; index < communicator.calls; ++index) {
    RecordedCall call;
    if (read_call(channel.calls[index % kCalls], index, names, times, call))
      communicator.recent.push_back(std::move(call));
  }
  std::vector<CallCounters> counters = into.counters;
  if (communicator.open) read_rows(channel.rows.data(), kRows, names, counters);
  if (channel.version.load(std::memory_order_acquire) != version) return false;
  into.counters = std::move(counters);
  if (communicator.open || (limits.closed_communicators && version > 0)) {
    into.communicators.push_back(std::move(communicator));
  }
  return true;
}

void read_header(const Header& header, Recording& into) {
  into.identity.size = high(header.place.load());
  into.identity.rank = low(header.place.load());
  into.identity.node_rank = high(header.host_place.load());
  into.identity.local_rank = low(header.host_place.load());
  into.identity.epoch = static_cast<std::int64_t>(header.epoch.load());
  into.identity.attempt = static_cast<std::int64_t>(header.attempt.load());
  into.identity.job_id = header.job_id.load();
  into.identity.host = header.host.load();
  into.identity.program = header.program.load();
  const auto state = static_cast<OwnerState>(header.owner_state.load());
  into.left = state == OwnerState::left;
  into.pid = state == OwnerState::none ? 0 : static_cast<std::int64_t>(header.owner_pid.load());
  into.start_ticks = header.owner_start_ticks.load();
  into.launched_pid = static_cast<std::int64_t>(header.launched_pid.load());
  into.unrecorded = header.unrecorded.load();
  if (header.failed.load(std::memory_order_acquire) != 0) {
    into.failure = RecordedFailure{header.failure.load(), rank_of(header.culprit.load()), header.failed_context.load()};
  }
  for (const NamedMetric& metric : header.named) {
    NamedValue value{metric.name.load(), metric.labels.load(), metric.is_gauge.load() != 0, metric.value.load()};
    if (value.name.empty()) break;
    into.named.push_back(std::move(value));
  }
}

Status check_layout(const Header& header) {
  if (header.magic.load(std::memory_order_acquire) != kMagic) {
    return invalid_argument("this memory is no flight recorder's");
  }
  if (header.version.load() != kVersion || header.header_bytes.load() != sizeof(Header) ||
      header.channel_bytes.load() != sizeof(Channel) || header.channels.load() != kChannels) {
    return invalid_argument(
        fmt::format("the flight recorder has layout {}, this program reads layout {}: use the "
                    "trireme that belongs to the ranks' library",
                    header.version.load(), kVersion));
  }
  return {};
}

}  // namespace

Result<Recording> read_recording(int fd, const ReadLimits& limits) {
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  // Without the seal its owner could shrink it while we read, which would be our end.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &info) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(Header))) {
    return invalid_argument("this descriptor is no flight recorder's: expected sealed memory");
  }
  const Mapping header_map(fd, 0, sizeof(Header));
  if (!header_map.valid()) return errno_status(errno, "map a flight recorder's memory");
  const Header& header = header_map.as<Header>();
  TRIREME_RETURN_IF_ERROR(check_layout(header));
  if (info.st_size < static_cast<off_t>(kFileBytes)) return data_loss("a flight recorder is shorter than it says");
  const Times times(header);
  Names names(header);
  Recording recording;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::uint64_t folds = header.fold_version.load(std::memory_order_acquire);
    recording = {};
    recording.read_at_ns = times.now();
    read_header(header, recording);
    read_rows(header.retired.data(), kRetiredRows, names, recording.counters);
    const std::size_t used = std::min<std::size_t>(header.used_channels.load(), kChannels);
    for (std::size_t i = 0; i < used; ++i) {
      const Mapping map(fd, channel_offset(i), sizeof(Channel));
      if (!map.valid()) return errno_status(errno, "map a flight recorder's memory");
      for (int again = 0; again < kTries; ++again) {
        if (read_channel(map.as<Channel>(), names, times, limits, recording)) break;
      }
    }
    // A communicator that closed meanwhile would be counted twice, or not at all.
    if (folds % 2 == 0 && header.fold_version.load(std::memory_order_acquire) == folds) break;
  }
  return recording;
}

}  // namespace trireme
