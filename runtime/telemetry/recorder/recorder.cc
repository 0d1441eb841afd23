#include "runtime/telemetry/api/recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>

#include <fmt/core.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/process.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme {

using namespace recorder_layout;

namespace {

// Channels that were given back are kept readable for this many successors.
constexpr std::size_t kKeptChannels = 8;

std::uint64_t pair(int high, int low) {
  return std::uint64_t{static_cast<std::uint32_t>(high)} << 32 | static_cast<std::uint32_t>(low);
}

void* map_shared(int fd, std::size_t offset, std::size_t bytes) {
  if (inject_fault("memory.map") != 0) return nullptr;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : memory;
}

void write_identity(Header& header, const RecorderIdentity& identity) {
  header.place.store(pair(identity.size, identity.rank));
  header.host_place.store(pair(identity.node_rank, identity.local_rank));
  header.epoch.store(static_cast<std::uint64_t>(identity.epoch));
  header.attempt.store(static_cast<std::uint64_t>(identity.attempt));
  header.job_id.store(identity.job_id);
  header.host.store(identity.host);
  header.program.store(identity.program);
}

void format(Header& header, const RecorderIdentity& identity) {
  header.version.store(kVersion);
  header.header_bytes.store(sizeof(Header));
  header.channel_bytes.store(sizeof(Channel));
  header.channels.store(kChannels);
  write_identity(header, identity);
  header.magic.store(kMagic, std::memory_order_release);
}

bool has_layout_of_ours(const Header& header) {
  return header.magic.load(std::memory_order_acquire) == kMagic && header.version.load() == kVersion &&
         header.header_bytes.load() == sizeof(Header) && header.channel_bytes.load() == sizeof(Channel) &&
         header.channels.load() == kChannels;
}

void tell_members(Channel& channel, const std::vector<int>& members) {
  const int first = members.empty() ? 0 : members.front();
  const int stride = members.size() > 1 ? members[1] - first : 1;
  bool regular = true;
  for (std::size_t i = 0; i < members.size(); ++i) regular &= members[i] == first + static_cast<int>(i) * stride;
  if (regular) return channel.members.store(pair(first, stride));
  if (members.size() > kListedMembers) return channel.members.store(kUnknownMembers);
  for (std::size_t i = 0; i < members.size(); i += 2) {
    channel.member_list[i / 2].store(pair(i + 1 < members.size() ? members[i + 1] : 0, members[i]));
  }
  channel.members.store(kExplicitMembers);
}

}  // namespace

Result<UniqueFd> make_recorder_memory(const RecorderIdentity& identity) {
  if (const int injected = inject_fault("memory.create"); injected != 0) {
    return errno_status(injected, "create a flight recorder's memory");
  }
  UniqueFd fd(::memfd_create(kMemoryName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_status(errno, "create a flight recorder's memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(kFileBytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errno_status(errno, fmt::format("give a flight recorder {} bytes (it takes memory only where it is written; "
                                           "see ulimit -f)",
                                           kFileBytes));
  }
  void* memory = map_shared(fd.get(), 0, sizeof(Header));
  if (memory == nullptr) return errno_status(errno, "map a flight recorder's memory");
  format(*new (memory) Header, identity);
  ::munmap(memory, sizeof(Header));
  return fd;
}

void note_launched_process(int fd, std::int64_t pid) {
  void* memory = map_shared(fd, 0, sizeof(Header));
  if (memory == nullptr) return;
  static_cast<Header*>(memory)->launched_pid.store(static_cast<std::uint64_t>(pid));
  ::munmap(memory, sizeof(Header));
}

std::shared_ptr<Recorder> Recorder::open(const RecorderIdentity& identity, int inherited_fd) {
  std::shared_ptr<Recorder> recorder(new Recorder(identity));
  recorder->pid_ = current_pid();
  if (inherited_fd == kPrivate) {
    recorder->make_private();
  } else if (inherited_fd < 0 || !recorder->adopt(inherited_fd)) {
    recorder->make_own();
  }
  recorder->describe_owner();
  return recorder;
}

// Whatever the descriptor turns out to be, it costs us no more than our own memory.
bool Recorder::adopt(int inherited_fd) {
  struct stat info {};
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(inherited_fd, F_GET_SEALS);
  if (seals < 0 || (seals & kNeeded) != kNeeded || ::fstat(inherited_fd, &info) != 0) return false;
  if (info.st_size != static_cast<off_t>(kFileBytes)) return false;
  UniqueFd fd(::fcntl(inherited_fd, F_DUPFD_CLOEXEC, 3));
  void* memory = fd.valid() ? map_shared(fd.get(), 0, sizeof(Header)) : nullptr;
  if (memory == nullptr) return false;
  fd_ = std::move(fd);
  header_ = static_cast<Header*>(memory);
  if (has_layout_of_ours(*header_) && claim()) return shared_ = true;
  ::munmap(memory, sizeof(Header));
  header_ = nullptr;
  fd_.reset();
  return false;
}

// One World owns it at a time. What an earlier one left is wiped: "sh -c 'a; b'" gives
// each of its programs a fresh recorder.
bool Recorder::claim() {
  std::uint64_t owner = header_->owner_pid.load();
  if (owner != 0) {
    const bool left = header_->owner_state.load() == static_cast<std::uint64_t>(OwnerState::left);
    const bool gone = ::kill(static_cast<pid_t>(owner), 0) != 0 && errno == ESRCH;
    if (!left && !gone) return false;
  }
  if (!header_->owner_pid.compare_exchange_strong(owner, static_cast<std::uint64_t>(pid_))) return false;
  if (owner == 0) return true;
  const std::uint64_t launched = header_->launched_pid.load();
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(kFileBytes));
  format(*header_, identity_);
  header_->launched_pid.store(launched);
  return true;
}

void Recorder::make_own() {
  Result<UniqueFd> fd = make_recorder_memory(identity_);
  if (fd.is_ok()) {
    void* memory = map_shared(fd->get(), 0, sizeof(Header));
    if (memory != nullptr) {
      fd_ = std::move(*fd);
      header_ = static_cast<Header*>(memory);
      return;
    }
  }
  TRIREME_LOG_INFO("recorder", "the flight recorder is private to this process: {}", fd.status().to_string());
  make_private();
}

void Recorder::make_private() {
  header_on_heap_ = true;
  header_ = new (std::align_val_t{alignof(Header)}) Header{};
  format(*header_, identity_);
}

void Recorder::describe_owner() {
  write_identity(*header_, identity_);
  const Result<ProcessIdentity> self = process_identity(pid_);
  header_->anchor_ns.store(system_clock().now_ns());
  header_->anchor_ticks.store(tsc_now());
  header_->owner_start_ticks.store(self.is_ok() ? self->start_time_ticks : 0);
  header_->owner_pid.store(static_cast<std::uint64_t>(pid_));
  header_->owner_state.store(static_cast<std::uint64_t>(OwnerState::joined));
}

Recorder::~Recorder() {
  if (header_on_heap_) {
    header_->~Header();
    ::operator delete (header_, std::align_val_t{alignof(Header)});
  } else {
    ::munmap(header_, sizeof(Header));
  }
}

bool Recorder::is_owner() const {
  return current_pid() == pid_;
}

void Recorder::name_op(std::size_t op, std::string_view name) {
  if (op < kOps) header_->ops[op].store(name);
}

void Recorder::name_algorithm(std::size_t algorithm, std::string_view name) {
  if (algorithm < kAlgorithms) header_->algorithms[algorithm].store(name);
}

std::size_t Recorder::transport_index(std::string_view transports) {
  for (std::size_t i = 0; i < kTransportSets; ++i) {
    const std::string known = header_->transports[i].load();
    if (known == transports) return i;
    if (known.empty()) {
      header_->transports[i].store(transports);
      return i;
    }
  }
  return kTransportSets - 1;
}

Channel* Recorder::map_channel(std::size_t index) {
  return static_cast<Channel*>(map_shared(fd_.get(), channel_offset(index), sizeof(Channel)));
}

std::shared_ptr<RecorderChannel> Recorder::open_channel(std::uint64_t context, int own_rank,
                                                        const std::vector<int>& members, std::string_view transports) {
  const std::lock_guard lock(mutex_);
  std::size_t index = header_->used_channels.load();
  const bool again = !released_.empty() && (released_.size() > kKeptChannels || index == kChannels);
  if (again) index = released_.front();
  Channel* channel = fd_.valid() && index < kChannels ? map_channel(index) : nullptr;
  if (channel == nullptr) {
    header_->unrecorded.fetch_add(1);
    index = SIZE_MAX;
    channel = new (std::align_val_t{alignof(Channel)}) Channel{};
  } else if (again) {
    released_.pop_front();
  }
  for (Row& row : channel->rows) {
    if (row.key.load() == 0) break;  // Rows are taken in order.
    for (Word* word : {&row.key, &row.failures, &row.bytes, &row.nanoseconds}) word->store(0);
    for (Word& bucket : row.buckets) bucket.store(0);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(channel->head.load(), kCalls); ++i) {
    channel->calls[i].words[kHead].store(0);
  }
  channel->head.store(0);
  channel->done_sequence.store(0);
  channel->context.store(context);
  channel->place.store(pair(static_cast<int>(members.size()), own_rank));
  channel->transports.store(transport_index(transports));
  tell_members(*channel, members);
  channel->version.fetch_add(1);  // Odd: in use.
  if (index != SIZE_MAX && !again) header_->used_channels.store(index + 1);
  return std::shared_ptr<RecorderChannel>(new RecorderChannel(shared_from_this(), channel, index));
}

void Recorder::give_back(RecorderChannel& channel) {
  Channel* memory = channel.channel_;
  if (is_owner()) {
    const std::lock_guard lock(mutex_);
    header_->fold_version.fetch_add(1);
    fold(*memory);
    memory->version.fetch_add(1);
    header_->fold_version.fetch_add(1);
    if (channel.index_ != SIZE_MAX) released_.push_back(channel.index_);
  }
  if (channel.index_ != SIZE_MAX) {
    ::munmap(memory, sizeof(Channel));
  } else {
    memory->~Channel();
    ::operator delete (memory, std::align_val_t{alignof(Channel)});
  }
}

// What the channel counted goes on counting when it is gone.
void Recorder::fold(const Channel& channel) {
  for (const Row& row : channel.rows) {
    const std::uint64_t key = row.key.load();
    if (key == 0) break;
    for (Row& total : header_->retired) {
      const std::uint64_t known = total.key.load();
      if (known != 0 && known != key && &total != &header_->retired.back()) continue;
      if (known == 0) total.key.store(key);
      total.failures.fetch_add(row.failures.load());
      total.bytes.fetch_add(row.bytes.load());
      total.nanoseconds.fetch_add(row.nanoseconds.load());
      for (std::size_t i = 0; i < kBuckets; ++i) total.buckets[i].fetch_add(row.buckets[i].load());
      break;
    }
  }
}

bool Recorder::record_failure(const Status& status, int culprit, std::uint64_t context) {
  if (!is_owner()) return false;
  const std::lock_guard lock(mutex_);
  if (header_->failed.load() != 0) return false;
  header_->failure.store(status.to_string());
  header_->culprit.store(static_cast<std::uint64_t>(culprit + 1));
  header_->failed_context.store(context);
  header_->failed.store(1, std::memory_order_release);
  return true;
}

void Recorder::count_failure(const Status& status) {
  auto* counter = metric("trireme_failures_total", fmt::format("code=\"{}\"", to_string(status.code())));
  if (counter != nullptr) counter->fetch_add(1);
}

void Recorder::leave() {
  if (is_owner()) header_->owner_state.store(static_cast<std::uint64_t>(OwnerState::left));
}

std::atomic<std::uint64_t>* Recorder::metric(std::string_view name, std::string_view labels, bool is_gauge) {
  const std::lock_guard lock(mutex_);
  for (NamedMetric& metric : header_->named) {
    const std::string known = metric.name.load();
    if (known == name && metric.labels.load() == labels) return &metric.value;
    if (!known.empty()) continue;
    metric.labels.store(labels);
    metric.is_gauge.store(is_gauge ? 1 : 0);
    metric.name.store(name);
    return &metric.value;
  }
  return nullptr;
}

}  // namespace trireme
