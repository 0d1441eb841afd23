#include "collectives/execute/engine.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>
#include <trireme/base/hash.h>
#include <trireme/base/wire.h>
#include <trireme/platform/environment.h>
#include <trireme/telemetry/log.h>

#include "runtime/transport/table/api/transport_table.h"

namespace trireme {
namespace {

constexpr std::uint32_t kWireVersion = 4;
constexpr std::int64_t kDefaultTimeoutMs = 60'000;
constexpr std::int64_t kLongestTimeoutMs = std::int64_t{30} * 24 * 3600 * 1000;
// A hand-over between ranks that share a core costs a sleep and a wake-up.
constexpr double kOversubscribedAlphaS = 15e-6;
// So long a caller may be between two waits before the progress thread works in its stead.
constexpr std::chrono::microseconds kHandOverAfter{200};
constexpr double kLocalWorkSecondsPerByte = 1e-10;

struct Figures {
  double alpha_s = 0;
  double bytes_per_second = 0;
  void take_worst(double other_alpha, double other_rate) {
    alpha_s = std::max(alpha_s, other_alpha);
    if (other_rate > 0) bytes_per_second = bytes_per_second == 0 ? other_rate : std::min(bytes_per_second, other_rate);
  }
  plan::Network network() const {
    plan::Network network;
    if (bytes_per_second > 0) network.beta_s_per_byte = 1 / bytes_per_second;
    if (alpha_s > 0) network.alpha_s = alpha_s;
    network.gamma_s_per_byte = kLocalWorkSecondsPerByte;
    return network;
  }
};

// The worst of this rank's own paths, to peers of this host and of others.
void measure_paths(const World& world, Fabric& fabric, Figures& inside, Figures& across) {
  const bool crowded = fabric.host().crowded();
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == world.rank()) continue;
    const PathChoice& choice = fabric.choice(peer);
    for (const PathChoice::Candidate& candidate : choice.candidates) {
      if (candidate.transport != choice.transport) continue;
      const bool near = world.peer(peer).host_identity == world.peer(world.rank()).host_identity;
      const double alpha = candidate.reach.latency_us * 1e-6 + (crowded ? kOversubscribedAlphaS : 0);
      (near ? inside : across).take_worst(alpha, candidate.reach.bytes_per_second);
    }
  }
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::create(std::shared_ptr<World> world, const CommunicatorOptions& options) {
  std::shared_ptr<Engine> engine(new Engine(std::move(world)));
  TRIREME_RETURN_IF_ERROR(engine->configure(options));
  return engine;
}

Status Engine::configure(const CommunicatorOptions& options) {
  if (options.timeout_ms < 0) {
    return invalid_argument(
        fmt::format("CommunicatorOptions::timeout_ms is {}: expected 0 (the default) or more", options.timeout_ms));
  }
  TRIREME_ASSIGN_OR_RETURN(timeout_ms_,
                           environment_integer("TRIREME_TIMEOUT_MS", kDefaultTimeoutMs, 1, kLongestTimeoutMs));
  if (options.timeout_ms > 0) timeout_ms_ = options.timeout_ms;
  reproducible_ = options.reproducible;
  guarded_ = environment("TRIREME_UNGUARDED").value_or("0") == "0";
  const std::string forced =
      options.algorithm.empty() ? environment("TRIREME_ALGORITHM").value_or("") : options.algorithm;
  TRIREME_ASSIGN_OR_RETURN(forced_, parse_forced_algorithms(forced));
  for (int rank = 0; rank < world_->size(); ++rank) names_.push_back(world_->peer(rank).to_string());
  if (world_->size() == 1) {
    first_context_ = 2;
    return {};
  }
  // Communicators of one world are created in the same order by all ranks: each counts its own.
  TRIREME_ASSIGN_OR_RETURN(const std::int64_t ordinal,
                           world_->add(fmt::format("trireme/communicators/{}", world_->rank()), 1));
  FabricOptions fabric_options;
  fabric_options.transports = transport_table();
  fabric_options.forced_transport = options.transport;
  TRIREME_ASSIGN_OR_RETURN(fabric_, Fabric::create(world_, fabric_options));
  TRIREME_RETURN_IF_ERROR(agree(ordinal, forced));
  name_recorded();
  watch();
  return {};
}

// All ranks learn the worst figures of all paths, and that they run the same version
// with the same settings.
Status Engine::agree(std::int64_t ordinal, const std::string& forced) {
  Figures inside;
  Figures across;
  measure_paths(*world_, *fabric_, inside, across);
  WireWriter writer;
  writer.u32(kWireVersion);
  writer.bytes(forced);
  writer.u8(reproducible_ ? 1 : 0);
  const std::string tuning = load_tuning();
  std::vector<int> sharing;
  for (int rank = 0; rank < world_->size(); ++rank) {
    if (rank != world_->rank() && fabric_->shares_memory(rank)) sharing.push_back(rank);
  }
  writer.u32(static_cast<std::uint32_t>(sharing.size()));
  for (const int rank : sharing) writer.u32(static_cast<std::uint32_t>(rank));
  writer.u64(hash64(tuning));
  writer.bytes(world_->rank() == 0 ? tuning : std::string());
  for (const Figures* figures : {&inside, &across}) {
    writer.f64(figures->alpha_s);
    writer.f64(figures->bytes_per_second);
  }
  std::vector<int> members;
  for (int rank = 0; rank < world_->size(); ++rank) members.push_back(rank);
  auto texts = world_->exchange(fmt::format("trireme/communicator/{}", ordinal), members, writer.data(),
                                Deadline::after_ms(static_cast<std::uint64_t>(timeout_ms_)));
  if (!texts.is_ok()) return texts.status().with_context("creating a communicator");
  for (int rank = 0; rank < world_->size(); ++rank) {
    WireReader reader(texts.value()[static_cast<std::size_t>(rank)]);
    const std::uint32_t version = reader.u32();
    const std::string theirs = reader.string();
    const bool reproducible = reader.u8() != 0;
    std::vector<int>& partners = sharing_.emplace_back();
    const std::uint32_t count = reader.u32();
    for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) partners.push_back(static_cast<int>(reader.u32()));
    const std::uint64_t hash = reader.u64();
    const std::string table = reader.string();
    if (rank == 0 && !reader.failed()) use_tuning(hash, table, tuning);
    for (Figures* figures : {&inside, &across}) {
      const double alpha = reader.f64();
      figures->take_worst(alpha, reader.f64());
    }
    const std::string& self = names_[static_cast<std::size_t>(world_->rank())];
    const std::string& other = names_[static_cast<std::size_t>(rank)];
    if (!reader.finished() || version != kWireVersion) {
      return mismatch(fmt::format(
          "{} speaks version {} of the collectives' messages, {} version {}: start all ranks from one build", self,
          kWireVersion, other, version));
    }
    if (reproducible != reproducible_) {
      return mismatch(
          fmt::format("CommunicatorOptions::reproducible differs: {} has {}, {} has {}. Give all ranks the same", self,
                      reproducible_, other, reproducible));
    }
    if (theirs != forced) {
      return mismatch(fmt::format("TRIREME_ALGORITHM differs: {} has '{}', {} has '{}'. Give all ranks the same", self,
                                  forced, other, theirs));
    }
  }
  // Measured figures hold for no more ranks than were measured: more may not fit the cores.
  const bool measured = tuning_ != nullptr && world_->size() <= tuning_->ranks;
  inside_ = measured ? tuning_->network : inside.network();
  across_ = across.network();
  first_context_ = hash64(fmt::format("trireme/communicator/{}", ordinal)) & ~std::uint64_t{1};
  return {};
}

bool Engine::share_memory(const std::vector<int>& members) const {
  if (fabric_ == nullptr || members.size() < 2) return false;
  return std::all_of(members.begin(), members.end(), [&](int member) {
    const std::vector<int>& partners = sharing_[static_cast<std::size_t>(member)];  // Ascending.
    return std::all_of(members.begin(), members.end(), [&](int other) {
      return other == member || std::binary_search(partners.begin(), partners.end(), other);
    });
  });
}

// What the numbers in the flight recorder stand for.
void Engine::name_recorded() {
  Recorder& recorder = *world_->recorder();
  for (int kind = 0; kind < kCallKindCount; ++kind) {
    Call call;
    call.kind = static_cast<CallKind>(kind);
    const std::string text = describe(call);
    recorder.name_op(static_cast<std::size_t>(kind), text.substr(0, text.find('(')));
  }
  for (std::size_t i = 0; i < plan::algorithms().size(); ++i) recorder.name_algorithm(i, plan::algorithms()[i].name);
}

std::shared_ptr<RecorderChannel> Engine::record_communicator(std::uint64_t context, int own_rank,
                                                             const std::vector<int>& members) {
  std::set<std::string> transports;
  for (const int member : members) {
    if (member != world_->rank()) transports.emplace(fabric_->choice(member).transport);
  }
  return world_->recorder()->open_channel(context, own_rank, members, fmt::format("{}", fmt::join(transports, "+")));
}

// Rank 0's table is everybody's; a rank that has another one says so.
void Engine::use_tuning(std::uint64_t hash, const std::string& text, const std::string& own) {
  if (hash != hash64(own)) {
    const std::string& self = names_[static_cast<std::size_t>(world_->rank())];
    log_line(LogLevel::warn, "tune",
             fmt::format("the tuning tables of {} and {} differ ({} and {} bytes); that of {} is used by all. Run "
                         "trireme tune on every machine, or point TRIREME_TUNING at one file",
                         self, names_[0], own.size(), text.size(), names_[0]));
  }
  if (text.empty()) return;
  Result<TuningTable> table = tuning_from_json(text);
  if (!table.is_ok()) return;  // Rank 0 has checked it; one of another build fails the version above.
  tuning_ = std::make_shared<const TuningTable>(std::move(table).value());
}

void Engine::watch() {
  failure_subscription_ = world_->on_failure([this](const Failure&) {
    failures_.fetch_add(1, std::memory_order_release);
    ring();
  });
  activity_subscription_ = world_->set_activity_source([this] { return activity(); });
}

Engine::~Engine() {
  failure_subscription_.reset();
  activity_subscription_.reset();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  ring();
  if (progress_.joinable()) progress_.join();
}

std::string Engine::activity() const {
  const std::lock_guard lock(records_mutex_);
  std::vector<ContextActivity> contexts;
  for (const auto& record : records_) contexts.push_back(record->snapshot());
  return encode_activity(contexts);
}

void Engine::add(Drivable* drivable, std::shared_ptr<ActivityRecord> record) {
  {
    const std::lock_guard lock(records_mutex_);
    records_.push_back(std::move(record));
  }
  const std::lock_guard lock(mutex_);
  drivables_.push_back(drivable);
}

void Engine::remove(Drivable* drivable, const std::shared_ptr<ActivityRecord>& record) {
  {
    std::unique_lock lock(mutex_);
    std::erase(drivables_, drivable);
    changed_.wait(lock, [&] { return in_use_ != drivable; });
  }
  const std::lock_guard lock(records_mutex_);
  std::erase(records_, record);
}

void Engine::start_progress() {
  const std::lock_guard lock(mutex_);
  if (!progress_.joinable() && !stopping_) progress_ = std::thread([this] { run(); });
}

void Engine::wake_progress() {
  if (!fabric_) return;  // Alone: a message to oneself ends when its other half is called.
  handing_over_.store(false);
  start_progress();
  changed_.notify_all();
  ring();
}

void Engine::hand_over() {
  if (!fabric_ || handing_over_.exchange(true)) return;  // It is about to look anyway.
  start_progress();
  changed_.notify_all();
  ring();
}

// False when the engine ends.
bool Engine::wait_for_work() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !any_wants_driving()) {
    changed_.wait(lock, [&] { return stopping_ || handing_over_.load() || any_wants_driving(); });
    if (handing_over_.load()) {
      changed_.wait_for(lock, kHandOverAfter, [&] { return stopping_ || !handing_over_.load(); });
      handing_over_.store(false);  // Before looking: who comes from now on is heard again.
    }
  }
  handing_over_.store(false);
  return !stopping_;
}

bool Engine::any_wants_driving() const {
  // A message of one rank alone to itself waits for its other half: nobody can drive it.
  if (fabric_ == nullptr) return false;
  return std::any_of(drivables_.begin(), drivables_.end(),
                     [](const Drivable* drivable) { return drivable->wants_driving(); });
}

void Engine::run() {
  for (;;) {
    if (!wait_for_work()) return;
    Doorbell& bell = fabric_->doorbell();
    const std::uint32_t seen = bell.value();
    Deadline next = Deadline::never();
    if (drive_all(false, next)) continue;
    if (drive_all(true, next)) continue;
    if (!next.is_never()) bell.wait(seen, next);
  }
}

// One turn for every communicator that wants it; with `look_after`, its deadlines.
bool Engine::drive_all(bool look_after, Deadline& next) {
  bool moved = false;
  std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < drivables_.size(); ++i) {
    Drivable* drivable = drivables_[i];
    if (!drivable->wants_driving()) continue;
    in_use_ = drivable;
    lock.unlock();
    if (look_after) {
      moved |= drivable->prepare_sleep();
      next = next.earlier(drivable->look_after());
    } else {
      moved |= drivable->drive();
    }
    lock.lock();
    in_use_ = nullptr;
    changed_.notify_all();
  }
  return moved;
}

}  // namespace trireme
