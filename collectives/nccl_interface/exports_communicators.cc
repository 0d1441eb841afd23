// Communicators: made, asked, ended; memory and registrations.
#include "collectives/nccl_interface/exports.h"
#include "collectives/nccl_interface/registry.h"
#include "collectives/nccl_interface/setup.h"
#include "collectives/nccl_interface/unique_id.h"

using namespace trireme::nccl;

namespace {

// Answers a question about a communicator by `ask(comm)`, an int to be written to `value`.
template <typename Ask>
int question(const char* function, const ncclComm* handle, int* value, const Ask& ask) {
  return serve(function, [&]() -> Outcome {
    std::shared_ptr<Comm> comm;
    const Outcome outcome = find_comm(handle, comm);
    if (!outcome.is_ok()) return outcome;
    if (value == nullptr) return bad_argument("the address where the answer shall be written is NULL");
    if (comm->rank() < 0) return bad_usage("the communicator is still being made");
    *value = ask(*comm);
    return {};
  });
}

template <typename Act>
int act_on(const char* function, const ncclComm* handle, const Act& act) {
  return serve(function, [&]() -> Outcome {
    std::shared_ptr<Comm> comm;
    const Outcome outcome = find_comm(handle, comm);
    return outcome.is_ok() ? act(*comm) : outcome;
  });
}

}  // namespace

TRIREME_NCCL_CALL(int, ncclGetVersion, (int* version)) {
  return serve("ncclGetVersion", [&]() -> Outcome {
    if (version == nullptr) return bad_argument("version is NULL");
    *version = kVersion;
    return {};
  });
}

TRIREME_NCCL_CALL(int, ncclGetUniqueId, (UniqueId * id)) {
  return serve("ncclGetUniqueId", [&]() -> Outcome {
    if (id == nullptr) return bad_argument("uniqueId is NULL");
    return make_unique_id(*id);
  });
}

TRIREME_NCCL_CALL(int, ncclCommInitRank, (ncclComm * *comm, int ranks, UniqueId id, int rank)) {
  return serve_in_group("ncclCommInitRank", [&] { return init_rank(comm, ranks, id, rank, nullptr); });
}

TRIREME_NCCL_CALL(int, ncclCommInitRankConfig, (ncclComm * *comm, int ranks, UniqueId id, int rank, Config* config)) {
  return serve_in_group("ncclCommInitRankConfig", [&] { return init_rank(comm, ranks, id, rank, config); });
}

TRIREME_NCCL_CALL(int, ncclCommInitRankScalable,
                  (ncclComm * *comm, int ranks, int rank, int ids, UniqueId* id, Config* config)) {
  return serve_in_group("ncclCommInitRankScalable", [&]() -> Outcome {
    if (ids < 1 || ids > ranks || id == nullptr) return bad_argument("nId must be 1 to nranks, and commIds not NULL");
    // One store serves all ranks: the first id is enough.
    return init_rank(comm, ranks, *id, rank, config);
  });
}

TRIREME_NCCL_CALL(int, ncclCommInitAll, (ncclComm * *comms, int count, const int* devices)) {
  return serve_in_group("ncclCommInitAll", [&] { return init_all(comms, count, devices); });
}

TRIREME_NCCL_CALL(int, ncclCommSplit, (ncclComm * comm, int color, int key, ncclComm** made, Config* config)) {
  return serve_in_group("ncclCommSplit", [&] { return split(comm, color, key, made, config); });
}

TRIREME_NCCL_CALL(int, ncclCommShrink,
                  (ncclComm * comm, int* excluded, int excluded_count, ncclComm** made, Config* config, int flags)) {
  return serve_in_group("ncclCommShrink", [&] { return shrink(comm, excluded, excluded_count, made, config, flags); });
}

TRIREME_NCCL_CALL(int, ncclCommFinalize, (ncclComm * comm)) {
  return act_on("ncclCommFinalize", comm, [](Comm& c) { return c.finalize(); });
}

TRIREME_NCCL_CALL(int, ncclCommRevoke, (ncclComm * comm, int flags)) {
  return act_on("ncclCommRevoke", comm, [&](Comm& c) -> Outcome {
    return flags == 0 ? c.revoke() : bad_argument("revokeFlags must be NCCL_REVOKE_DEFAULT (0)");
  });
}

TRIREME_NCCL_CALL(int, ncclCommDestroy, (ncclComm * comm)) {
  if (comm == nullptr) return 0;
  return serve("ncclCommDestroy", [&] {
    std::shared_ptr<Comm> ended;
    Outcome outcome = release_comm(comm, ended);
    ended.reset();
    reap_stores();
    return outcome;
  });
}

TRIREME_NCCL_CALL(int, ncclCommAbort, (ncclComm * comm)) {
  if (comm == nullptr) return 0;
  return serve("ncclCommAbort", [&] {
    std::shared_ptr<Comm> ended;
    Outcome outcome = release_comm(comm, ended);
    if (outcome.is_ok()) ended->abort("ncclCommAbort was called");
    return outcome;
  });
}

TRIREME_NCCL_CALL(int, ncclCommGetAsyncError, (ncclComm * comm, int* error)) {
  return act_on("ncclCommGetAsyncError", comm, [&](Comm& c) -> Outcome {
    if (error == nullptr) return bad_argument("asyncError is NULL");
    *error = static_cast<int>(c.state().code);
    return {};
  });
}

TRIREME_NCCL_CALL(int, ncclCommCount, (const ncclComm* comm, int* count)) {
  return question("ncclCommCount", comm, count, [](const Comm& c) { return c.size(); });
}

TRIREME_NCCL_CALL(int, ncclCommUserRank, (const ncclComm* comm, int* rank)) {
  return question("ncclCommUserRank", comm, rank, [](const Comm& c) { return c.rank(); });
}

TRIREME_NCCL_CALL(int, ncclCommCuDevice, (const ncclComm* comm, int* device)) {
  return question("ncclCommCuDevice", comm, device, [](const Comm& c) { return c.place().device; });
}

TRIREME_NCCL_CALL(const char*, ncclGetErrorString, (int result)) {
  return describe_code(result);
}

TRIREME_NCCL_CALL(const char*, ncclGetLastError, (const ncclComm* handle)) {
  thread_local std::string text;
  std::shared_ptr<Comm> comm;
  // What failed in the background, no call of this thread has told.
  if (handle != nullptr && find_comm(handle, comm).is_ok()) {
    text = comm->state().text;
    if (!text.empty()) return text.c_str();
  }
  return last_error();
}

TRIREME_NCCL_CALL(void, ncclResetDebugInit, ()) {}

TRIREME_NCCL_CALL(int, ncclMemAlloc, (void** memory, std::size_t bytes)) {
  return serve("ncclMemAlloc", [&] { return allocate_memory(memory, bytes); });
}

TRIREME_NCCL_CALL(int, ncclMemFree, (void* memory)) {
  return serve("ncclMemFree", [&] { return free_memory(memory); });
}

TRIREME_NCCL_CALL(int, ncclCommRegister, (const ncclComm* comm, void* buffer, std::size_t bytes, void** handle)) {
  return act_on("ncclCommRegister", comm, [&](Comm&) { return register_buffer(buffer, bytes, handle); });
}

TRIREME_NCCL_CALL(int, ncclCommDeregister, (const ncclComm* comm, void* handle)) {
  return act_on("ncclCommDeregister", comm, [&](Comm&) { return release_buffer(handle); });
}
