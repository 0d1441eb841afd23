// Collectives, messages and groups.
#include "collectives/nccl_interface/exports.h"
#include "collectives/nccl_interface/registry.h"
#include "collectives/nccl_interface/scalar.h"

namespace trireme::nccl {
namespace {

int call(const char* function, ::ncclComm* handle, const Request& request) {
  return serve_in_group(function, [&]() -> Outcome {
    std::shared_ptr<Comm> comm;
    Outcome outcome = find_comm(handle, comm);
    std::unique_ptr<Operation> operation;
    if (outcome.is_ok()) outcome = Operation::check(request, std::move(comm), operation);
    return outcome.is_ok() ? submit(std::move(operation)) : outcome;
  });
}

}  // namespace
}  // namespace trireme::nccl

using trireme::nccl::Kind;

TRIREME_NCCL_CALL(int, ncclAllReduce,
                  (const void* send, void* receive, std::size_t count, int type, int op, ncclComm* comm,
                   void* stream)) {
  return trireme::nccl::call("ncclAllReduce", comm, {Kind::all_reduce, send, receive, count, type, op, 0, stream});
}

TRIREME_NCCL_CALL(int, ncclReduce,
                  (const void* send, void* receive, std::size_t count, int type, int op, int root, ncclComm* comm,
                   void* stream)) {
  return trireme::nccl::call("ncclReduce", comm, {Kind::reduce, send, receive, count, type, op, root, stream});
}

TRIREME_NCCL_CALL(int, ncclBcast, (void* buffer, std::size_t count, int type, int root, ncclComm* comm, void* stream)) {
  return trireme::nccl::call("ncclBcast", comm, {Kind::broadcast, buffer, buffer, count, type, 0, root, stream});
}

TRIREME_NCCL_CALL(int, ncclBroadcast,
                  (const void* send, void* receive, std::size_t count, int type, int root, ncclComm* comm,
                   void* stream)) {
  return trireme::nccl::call("ncclBroadcast", comm, {Kind::broadcast, send, receive, count, type, 0, root, stream});
}

TRIREME_NCCL_CALL(int, ncclReduceScatter,
                  (const void* send, void* receive, std::size_t count, int type, int op, ncclComm* comm,
                   void* stream)) {
  return trireme::nccl::call("ncclReduceScatter", comm,
                             {Kind::reduce_scatter, send, receive, count, type, op, 0, stream});
}

TRIREME_NCCL_CALL(int, ncclAllGather,
                  (const void* send, void* receive, std::size_t count, int type, ncclComm* comm, void* stream)) {
  return trireme::nccl::call("ncclAllGather", comm, {Kind::all_gather, send, receive, count, type, 0, 0, stream});
}

TRIREME_NCCL_CALL(int, ncclAlltoAll,
                  (const void* send, void* receive, std::size_t count, int type, ncclComm* comm, void* stream)) {
  return trireme::nccl::call("ncclAlltoAll", comm, {Kind::all_to_all, send, receive, count, type, 0, 0, stream});
}

TRIREME_NCCL_CALL(int, ncclGather,
                  (const void* send, void* receive, std::size_t count, int type, int root, ncclComm* comm,
                   void* stream)) {
  return trireme::nccl::call("ncclGather", comm, {Kind::gather, send, receive, count, type, 0, root, stream});
}

TRIREME_NCCL_CALL(int, ncclScatter,
                  (const void* send, void* receive, std::size_t count, int type, int root, ncclComm* comm,
                   void* stream)) {
  return trireme::nccl::call("ncclScatter", comm, {Kind::scatter, send, receive, count, type, 0, root, stream});
}

TRIREME_NCCL_CALL(int, ncclSend,
                  (const void* send, std::size_t count, int type, int peer, ncclComm* comm, void* stream)) {
  return trireme::nccl::call("ncclSend", comm, {Kind::send, send, nullptr, count, type, 0, peer, stream});
}

TRIREME_NCCL_CALL(int, ncclRecv, (void* receive, std::size_t count, int type, int peer, ncclComm* comm, void* stream)) {
  return trireme::nccl::call("ncclRecv", comm, {Kind::receive, nullptr, receive, count, type, 0, peer, stream});
}

TRIREME_NCCL_CALL(int, ncclGroupStart, ()) {
  trireme::nccl::group_start();
  return 0;
}

TRIREME_NCCL_CALL(int, ncclGroupEnd, ()) {
  return trireme::nccl::serve("ncclGroupEnd", [] { return trireme::nccl::group_end(); });
}

TRIREME_NCCL_CALL(int, ncclGroupSimulateEnd, (void* info)) {
  return trireme::nccl::serve("ncclGroupSimulateEnd", [&]() -> trireme::nccl::Outcome {
    trireme::nccl::Outcome outcome = trireme::nccl::group_discard();
    if (!outcome.is_ok()) return outcome;
    if (info == nullptr) return trireme::nccl::bad_argument("simInfo is NULL");
    return trireme::nccl::bad_usage(
        "this library does not estimate times of groups (`trireme simulate collective` does); the group was discarded");
  });
}

TRIREME_NCCL_CALL(int, ncclRedOpCreatePreMulSum, (int* op, void* scalar, int type, int residence, ncclComm* handle)) {
  using namespace trireme::nccl;
  return serve("ncclRedOpCreatePreMulSum", [&]() -> Outcome {
    std::shared_ptr<Comm> comm;
    Outcome outcome = find_comm(handle, comm);
    if (!outcome.is_ok()) return outcome;
    if (op == nullptr || scalar == nullptr) return bad_argument("op or scalar is NULL");
    if (residence != kScalarDevice && residence != kScalarHostImmediate) {
      return bad_argument("residence is neither ncclScalarDevice nor ncclScalarHostImmediate");
    }
    ScaledSum sum;
    outcome = data_type_of(type, sum.type);
    if (outcome.is_ok() && residence == kScalarHostImmediate) outcome = scalar_value(scalar, sum.type, sum.factor);
    if (residence == kScalarDevice) sum.scalar = scalar;
    return outcome.is_ok() ? comm->add_operator(sum, *op) : outcome;
  });
}

TRIREME_NCCL_CALL(int, ncclRedOpDestroy, (int op, ncclComm* handle)) {
  using namespace trireme::nccl;
  return serve("ncclRedOpDestroy", [&]() -> Outcome {
    std::shared_ptr<Comm> comm;
    const Outcome outcome = find_comm(handle, comm);
    return outcome.is_ok() ? comm->remove_operator(op) : outcome;
  });
}
