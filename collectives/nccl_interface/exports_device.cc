// Windows and the device interface (nccl_device.h): kernels that communicate by
// themselves. Nothing here runs on a device, so all but the arithmetic of teams is refused.
#include "collectives/nccl_interface/exports.h"
#include "collectives/nccl_interface/registry.h"

using namespace trireme::nccl;

namespace {

int refuse_device_call(const char* function) {
  return serve(function, [] {
    return bad_usage(
        "this library communicates from the host: symmetric windows and calls from inside kernels (nccl_device.h) are "
        "not supported; use the collectives of nccl.h");
  });
}

// A handle that is void gives the team of nobody.
Team team_of(const char* function, const ncclComm* handle, bool alone) {
  Team team{0, 0, 0};
  (void)serve(function, [&]() -> Outcome {
    std::shared_ptr<Comm> comm;
    Outcome outcome = find_comm(handle, comm);
    // Ranks cannot load from and store to each other's device memory: each is its own team.
    if (outcome.is_ok()) team = alone ? Team{1, 0, 1} : Team{comm->size(), comm->rank(), 1};
    return outcome;
  });
  return team;
}

int rank_in_world(const char* function, const ncclComm* handle, const Team& team, int rank) {
  const Team world = team_of(function, handle, false);
  return world.rank + (rank - team.rank) * team.stride;
}

}  // namespace

TRIREME_NCCL_CALL(int, ncclCommWindowRegister, (ncclComm*, void*, std::size_t, void** window, int)) {
  if (window != nullptr) *window = nullptr;
  return refuse_device_call("ncclCommWindowRegister");
}

TRIREME_NCCL_CALL(int, ncclCommWindowDeregister, (ncclComm*, void*)) {
  return refuse_device_call("ncclCommWindowDeregister");
}

TRIREME_NCCL_CALL(int, ncclDevCommCreate, (ncclComm*, const void*, void*)) {
  return refuse_device_call("ncclDevCommCreate");
}

TRIREME_NCCL_CALL(int, ncclDevCommDestroy, (ncclComm*, const void*)) {
  return refuse_device_call("ncclDevCommDestroy");
}

TRIREME_NCCL_CALL(int, ncclGinBarrierCreateRequirement, (ncclComm*, Team, int, void*, void*)) {
  return refuse_device_call("ncclGinBarrierCreateRequirement");
}

TRIREME_NCCL_CALL(int, ncclLsaBarrierCreateRequirement, (Team, int, void*, void*)) {
  return refuse_device_call("ncclLsaBarrierCreateRequirement");
}

TRIREME_NCCL_CALL(int, ncclLLA2ACreateRequirement, (int, int, void*, void*)) {
  return refuse_device_call("ncclLLA2ACreateRequirement");
}

// No slots: there is no device memory in which they could be.
TRIREME_NCCL_CALL(int, ncclLLA2ACalcSlots, (int, int)) {
  (void)refuse_device_call("ncclLLA2ACalcSlots");
  return 0;
}

TRIREME_NCCL_CALL(Team, ncclTeamWorld, (ncclComm * comm)) {
  return team_of("ncclTeamWorld", comm, false);
}

TRIREME_NCCL_CALL(Team, ncclTeamLsa, (ncclComm * comm)) {
  return team_of("ncclTeamLsa", comm, true);
}

// Without teams of load and store, the ranks of a rail are all ranks.
TRIREME_NCCL_CALL(Team, ncclTeamRail, (ncclComm * comm)) {
  return team_of("ncclTeamRail", comm, false);
}

TRIREME_NCCL_CALL(int, ncclTeamRankToWorld, (ncclComm * comm, Team team, int rank)) {
  return rank_in_world("ncclTeamRankToWorld", comm, team, rank);
}

TRIREME_NCCL_CALL(int, ncclTeamRankToLsa, (ncclComm * comm, Team team, int rank)) {
  const Team world = team_of("ncclTeamRankToLsa", comm, false);
  return rank_in_world("ncclTeamRankToLsa", comm, team, rank) - world.rank;
}
