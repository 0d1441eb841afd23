#include "collectives/nccl_interface/setup.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>
#include <trireme/platform/environment.h>

#include "collectives/nccl_interface/group.h"
#include "collectives/nccl_interface/registry.h"
#include "collectives/nccl_interface/unique_id.h"

namespace trireme::nccl {
namespace {

// NCCL has no deadline; ten minutes is what frameworks above it give a collective.
constexpr std::int64_t kTimeoutMs = 600'000;
constexpr std::int64_t kLongestTimeoutMs = std::int64_t{30} * 24 * 3600 * 1000;

using Made = Result<std::shared_ptr<Communicator>>;

Made create(std::shared_ptr<World> world) {
  CommunicatorOptions options;
  options.backend = "ours";  // Whatever TRIREME_BACKEND says: this library is what it would call.
  TRIREME_ASSIGN_OR_RETURN(options.timeout_ms,
                           environment_integer("TRIREME_TIMEOUT_MS", kTimeoutMs, 1, kLongestTimeoutMs));
  return Communicator::create(std::move(world), options);
}

Made meet(const Meeting& meeting, int ranks, int rank) {
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<World> world, join(meeting, ranks, rank));
  return create(std::move(world));
}

Place current_place() {
  Accelerator* device = accelerator();
  return device != nullptr ? device->current() : Place();
}

// Registers, submits, and takes a handle back whose communicator could not be made.
Outcome submit_new(Setup setup, ::ncclComm** handle) {
  *handle = register_comm(setup.comm);
  const Outcome outcome = submit(std::move(setup));
  if (outcome.is_ok() || outcome.code == Code::in_progress) return outcome;
  std::shared_ptr<Comm> failed;
  (void)release_comm(*handle, failed);
  *handle = nullptr;
  return outcome;
}

Outcome find_survivors(const Comm& parent, const int* excluded, int count, std::vector<int>& survivors) {
  if (count < 1 || count >= parent.size() || excluded == nullptr) {
    return bad_argument(fmt::format("excludeRanksCount is {}: expected 1 to {}, and a list of as many ranks", count,
                                    parent.size() - 1));
  }
  std::vector<bool> gone(static_cast<std::size_t>(parent.size()));
  for (int i = 0; i < count; ++i) {
    if (excluded[i] < 0 || excluded[i] >= parent.size()) {
      return bad_argument(
          fmt::format("excludeRanksList[{}] is {}: expected 0 to {}", i, excluded[i], parent.size() - 1));
    }
    gone[static_cast<std::size_t>(excluded[i])] = true;
  }
  if (gone[static_cast<std::size_t>(parent.rank())]) {
    return bad_argument(
        fmt::format("rank {} is excluded itself: excluded ranks do not call ncclCommShrink", parent.rank()));
  }
  for (int rank = 0; rank < parent.size(); ++rank) {
    if (!gone[static_cast<std::size_t>(rank)]) survivors.push_back(rank);
  }
  return {};
}

}  // namespace

Outcome init_rank(::ncclComm** handle, int ranks, const UniqueId& id, int rank, const Config* config) {
  if (handle == nullptr) return bad_argument("the address where the communicator shall be written is NULL");
  *handle = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return bad_argument(fmt::format("rank {} of {} is not possible: ranks count from 0", rank, ranks));
  }
  Settings settings;
  Outcome outcome = read_config(config, nullptr, settings);
  Meeting meeting;
  if (outcome.is_ok()) outcome = decode_unique_id(id, meeting);
  if (!outcome.is_ok()) return outcome;
  Setup setup;
  setup.comm = std::make_shared<Comm>(rank, ranks, settings, current_place());
  setup.make = [meeting, ranks, rank] { return meet(meeting, ranks, rank); };
  return submit_new(std::move(setup), handle);
}

Outcome init_all(::ncclComm** handles, int count, const int* devices) {
  if (handles == nullptr) return bad_argument("the array of communicators is NULL");
  if (count < 1) return bad_argument(fmt::format("ndev is {}: expected 1 or more", count));
  std::vector<Place> places;
  for (int i = 0; i < count; ++i) {
    handles[i] = nullptr;
    const int device = devices != nullptr ? devices[i] : i;
    if (device < 0) return bad_argument(fmt::format("devlist[{}] is {}: expected 0 or more", i, device));
    Place place;
    place.device = device;
    if (Accelerator* cuda = accelerator()) {
      const auto there = cuda->place_of(device);
      if (!there.is_ok()) return {Code::unhandled_cuda_error, there.status().to_string()};
      place = there.value();
    }
    places.push_back(place);
  }
  UniqueId id;
  Meeting meeting;
  Outcome outcome = make_unique_id(id);
  if (outcome.is_ok()) outcome = decode_unique_id(id, meeting);
  if (!outcome.is_ok()) return outcome;
  group_start();
  for (int rank = 0; rank < count; ++rank) {
    Setup setup;
    setup.comm = std::make_shared<Comm>(rank, count, Settings(), places[static_cast<std::size_t>(rank)]);
    setup.make = [meeting, count, rank] { return meet(meeting, count, rank); };
    (void)submit_new(std::move(setup), handles + rank);
  }
  outcome = group_end();
  if (outcome.is_ok()) return outcome;
  for (int rank = 0; rank < count; ++rank) {
    std::shared_ptr<Comm> failed;
    (void)release_comm(handles[rank], failed);
    handles[rank] = nullptr;
  }
  return outcome;
}

Outcome split(const ::ncclComm* parent, int color, int key, ::ncclComm** handle, const Config* config) {
  if (handle == nullptr) return bad_argument("the address where the communicator shall be written is NULL");
  *handle = nullptr;
  if (color < kSplitNoColor) {
    return bad_argument(fmt::format("color {}: expected 0 or more, or NCCL_SPLIT_NOCOLOR", color));
  }
  Setup setup;
  Outcome outcome = find_comm(parent, setup.parent);
  Settings settings;
  std::shared_ptr<Communicator> communicator;
  if (outcome.is_ok()) outcome = setup.parent->usable(communicator);
  if (outcome.is_ok()) outcome = read_config(config, &setup.parent->settings(), settings);
  if (!outcome.is_ok()) return outcome;
  setup.make = [communicator, color, key] { return communicator->split(color, key); };
  if (color == kSplitNoColor) return submit(std::move(setup));
  // Rank and size are known once all members have said their colors.
  setup.comm = std::make_shared<Comm>(-1, -1, settings, setup.parent->place());
  return submit_new(std::move(setup), handle);
}

Outcome shrink(const ::ncclComm* parent, const int* excluded, int excluded_count, ::ncclComm** handle,
               const Config* config, int flags) {
  if (handle == nullptr) return bad_argument("the address where the communicator shall be written is NULL");
  *handle = nullptr;
  if (flags != kShrinkDefault && flags != kShrinkAbort) {
    return bad_argument(fmt::format("shrinkFlags is {}: expected NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT", flags));
  }
  Setup setup;
  Outcome outcome = find_comm(parent, setup.parent);
  Settings settings;
  std::shared_ptr<Communicator> communicator;
  std::vector<int> survivors;
  if (outcome.is_ok()) outcome = setup.parent->parent(communicator);
  if (outcome.is_ok()) outcome = find_survivors(*setup.parent, excluded, excluded_count, survivors);
  if (outcome.is_ok()) outcome = read_config(config, &setup.parent->settings(), settings);
  if (!outcome.is_ok()) return outcome;
  const Status health = communicator->status();
  if (!health.is_ok() && flags == kShrinkDefault) {
    return bad_usage("the communicator has failed (" + health.to_string() + "): shrink it with NCCL_SHRINK_ABORT");
  }
  if (flags == kShrinkAbort) communicator->abort("it is being shrunk (ncclCommShrink)");
  const auto own = std::find(survivors.begin(), survivors.end(), setup.parent->rank());
  setup.comm = std::make_shared<Comm>(static_cast<int>(own - survivors.begin()), static_cast<int>(survivors.size()),
                                      settings, setup.parent->place());
  setup.make = [communicator, out = std::vector<int>(excluded, excluded + excluded_count)] {
    return communicator->shrink(out);
  };
  return submit_new(std::move(setup), handle);
}

}  // namespace trireme::nccl
