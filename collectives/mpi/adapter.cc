// libtrireme_mpi.so: Trireme's calls as MPI's non-blocking ones. Everything here runs
// against whatever MPI the machine has (built and tested with Open MPI).
#include "collectives/mpi/adapter.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/execute/call.h"

namespace trireme::mpi {
namespace {

struct Communicator {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
};

// What MPI reads until the request is done.
struct Request {
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<int> counts, offsets, receive_counts, receive_offsets;
  std::vector<char> staging;  // Of a reduce_scatter in place, whose result MPI puts elsewhere.
  void* result = nullptr;     // Where the staging is copied to in the end.
};

void say(const Text& text, const std::string& words) {
  if (text.bytes > 0) std::snprintf(text.data, text.bytes, "%s", words.c_str());
}

bool failed(int code, const char* call, const Text& error) {
  if (code == MPI_SUCCESS) return false;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, words, &length);
  say(error, std::string(call) + " failed: " + std::string(words, static_cast<std::size_t>(length)));
  return true;
}

// For what is only moved, by width; for what is reduced, by value.
MPI_Datatype moved_type(DataType type) {
  switch (size_of(type)) {
    case 8:
      return MPI_UINT64_T;
    case 4:
      return MPI_UINT32_T;
    case 2:
      return MPI_UINT16_T;
    default:
      return MPI_UINT8_T;
  }
}

MPI_Datatype reduced_type(DataType type) {
  switch (type) {
    case DataType::f64:
      return MPI_DOUBLE;
    case DataType::f32:
      return MPI_FLOAT;
    case DataType::i8:
      return MPI_INT8_T;
    case DataType::u8:
      return MPI_UINT8_T;
    case DataType::i32:
      return MPI_INT32_T;
    case DataType::u32:
      return MPI_UINT32_T;
    case DataType::i64:
      return MPI_INT64_T;
    case DataType::u64:
      return MPI_UINT64_T;
    case DataType::boolean:
      return MPI_C_BOOL;
    default:
      return MPI_DATATYPE_NULL;  // The low-precision types, which the backend refuses.
  }
}

MPI_Op operation(ReduceOp op, DataType type) {
  const bool logical = type == DataType::boolean;
  switch (op) {
    case ReduceOp::product:
      return logical ? MPI_LAND : MPI_PROD;
    case ReduceOp::min:
      return logical ? MPI_LAND : MPI_MIN;
    case ReduceOp::max:
      return logical ? MPI_LOR : MPI_MAX;
    default:
      return logical ? MPI_LOR : MPI_SUM;
  }
}

// The parts' counts and where each begins.
void lay_out(const std::int64_t* counts, int ranks, std::vector<int>& sizes, std::vector<int>& offsets) {
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back(static_cast<int>(counts[rank]));
  offsets.resize(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
}

// One call being translated.
class Translation {
 public:
  Translation(const Communicator& c, const AdapterCall& call, Request& request)
      : c_(c),
        call_(call),
        r_(request),
        kind_(static_cast<CallKind>(call.kind)),
        type_(static_cast<DataType>(call.type)),
        moved_(moved_type(type_)),
        count_(static_cast<int>(call.count)),
        at_root_(c.rank == call.root) {
    if (call.counts != nullptr) lay_out(call.counts, c.size, r_.counts, r_.offsets);
    if (call.receive_counts != nullptr) lay_out(call.receive_counts, c.size, r_.receive_counts, r_.receive_offsets);
  }

  int start() {
    switch (kind_) {
      case CallKind::all_reduce:
      case CallKind::reduce:
      case CallKind::reduce_scatter:
      case CallKind::reduce_scatter_v:
        return reduce();
      case CallKind::broadcast:
        if (at_root_ && call_.input != call_.output && call_.count > 0) {
          std::memcpy(call_.output, call_.input, call_.count * size_of(type_));
        }
        return MPI_Ibcast(call_.output, count_, moved_, call_.root, c_.comm, &r_.request);
      case CallKind::barrier:
        return MPI_Ibarrier(c_.comm, &r_.request);
      case CallKind::send:
        return MPI_Isend(call_.input, count_, moved_, call_.root, call_.tag, c_.comm, &r_.request);
      case CallKind::receive:
        return MPI_Irecv(call_.output, count_, moved_, call_.root, call_.tag, c_.comm, &r_.request);
      default:
        return is_uneven(kind_) ? move_uneven() : move();
    }
  }

 private:
  // Elements before this rank's part of the larger buffer.
  std::size_t own_offset() const {
    const auto rank = static_cast<std::size_t>(c_.rank);
    return r_.offsets.empty() ? rank * call_.count : static_cast<std::size_t>(r_.offsets[rank]);
  }
  const void* at_own(const void* base) const { return static_cast<const char*>(base) + own_offset() * size_of(type_); }

  int reduce() {
    const MPI_Datatype type = reduced_type(type_);
    const MPI_Op op = operation(static_cast<ReduceOp>(call_.op), type_);
    const void* in = call_.input == call_.output ? MPI_IN_PLACE : call_.input;
    if (kind_ == CallKind::all_reduce) {
      return MPI_Iallreduce(in, call_.output, count_, type, op, c_.comm, &r_.request);
    }
    if (kind_ == CallKind::reduce) {
      const void* own = at_root_ ? in : call_.input;
      return MPI_Ireduce(own, call_.output, count_, type, op, call_.root, c_.comm, &r_.request);
    }
    void* out = call_.output;
    if (out == at_own(call_.input) && c_.size > 1) {
      const std::size_t elements =
          r_.counts.empty() ? call_.count : static_cast<std::size_t>(r_.counts[static_cast<std::size_t>(c_.rank)]);
      r_.staging.resize(elements * size_of(type_) + 1);
      r_.result = std::exchange(out, r_.staging.data());
    }
    if (kind_ == CallKind::reduce_scatter) {
      return MPI_Ireduce_scatter_block(call_.input, out, count_, type, op, c_.comm, &r_.request);
    }
    return MPI_Ireduce_scatter(call_.input, out, r_.counts.data(), type, op, c_.comm, &r_.request);
  }

  int move() {
    switch (kind_) {
      case CallKind::all_gather: {
        const void* in = call_.input == at_own(call_.output) ? MPI_IN_PLACE : call_.input;
        return MPI_Iallgather(in, count_, moved_, call_.output, count_, moved_, c_.comm, &r_.request);
      }
      case CallKind::gather: {
        const void* in = at_root_ && call_.input == at_own(call_.output) ? MPI_IN_PLACE : call_.input;
        return MPI_Igather(in, count_, moved_, call_.output, count_, moved_, call_.root, c_.comm, &r_.request);
      }
      case CallKind::scatter: {
        void* out = at_root_ && call_.output == at_own(call_.input) ? MPI_IN_PLACE : call_.output;
        return MPI_Iscatter(call_.input, count_, moved_, out, count_, moved_, call_.root, c_.comm, &r_.request);
      }
      default:
        return MPI_Ialltoall(call_.input, count_, moved_, call_.output, count_, moved_, c_.comm, &r_.request);
    }
  }

  int move_uneven() {
    const int own = r_.counts[static_cast<std::size_t>(c_.rank)];
    switch (kind_) {
      case CallKind::all_gather_v: {
        const void* in = call_.input == at_own(call_.output) ? MPI_IN_PLACE : call_.input;
        return MPI_Iallgatherv(in, own, moved_, call_.output, r_.counts.data(), r_.offsets.data(), moved_, c_.comm,
                               &r_.request);
      }
      case CallKind::gather_v: {
        const void* in = at_root_ && call_.input == at_own(call_.output) ? MPI_IN_PLACE : call_.input;
        return MPI_Igatherv(in, own, moved_, call_.output, r_.counts.data(), r_.offsets.data(), moved_, call_.root,
                            c_.comm, &r_.request);
      }
      case CallKind::scatter_v: {
        void* out = at_root_ && call_.output == at_own(call_.input) ? MPI_IN_PLACE : call_.output;
        return MPI_Iscatterv(call_.input, r_.counts.data(), r_.offsets.data(), moved_, out, own, moved_, call_.root,
                             c_.comm, &r_.request);
      }
      default:
        return MPI_Ialltoallv(call_.input, r_.counts.data(), r_.offsets.data(), moved_, call_.output,
                              r_.receive_counts.data(), r_.receive_offsets.data(), moved_, c_.comm, &r_.request);
    }
  }

  const Communicator& c_;
  const AdapterCall& call_;
  Request& r_;
  const CallKind kind_;
  const DataType type_;
  const MPI_Datatype moved_;
  const int count_;
  const bool at_root_;
};

bool is_initialized() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

// At exit, when it was we who initialised MPI.
void finalize() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

void* adopt(MPI_Comm comm) {
  // What goes wrong comes back as a code, instead of ending the program.
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  auto made = std::make_unique<Communicator>();
  made->comm = comm;
  MPI_Comm_rank(comm, &made->rank);
  MPI_Comm_size(comm, &made->size);
  return made.release();
}

void* open(Text error) {
  if (!is_initialized()) {
    int provided = 0;
    if (failed(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread", error)) {
      return nullptr;
    }
    (void)std::atexit(finalize);
  }
  MPI_Comm comm = MPI_COMM_NULL;
  if (failed(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup", error)) return nullptr;
  return adopt(comm);
}

void* split(void* communicator, int color, int key, Text error) {
  const auto& parent = *static_cast<Communicator*>(communicator);
  MPI_Comm comm = MPI_COMM_NULL;
  const int place = color < 0 ? MPI_UNDEFINED : color;
  if (failed(MPI_Comm_split(parent.comm, place, key, &comm), "MPI_Comm_split", error)) return nullptr;
  return comm == MPI_COMM_NULL ? nullptr : adopt(comm);
}

void close(void* communicator) {
  std::unique_ptr<Communicator> ended(static_cast<Communicator*>(communicator));
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&ended->comm);
}

void library_version(Text text) {
  char words[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(words, &length);
  say(text, std::string(words, static_cast<std::size_t>(length)));
}

void* start(void* communicator, const AdapterCall* call, Text error) {
  auto request = std::make_unique<Request>();
  const int code = Translation(*static_cast<Communicator*>(communicator), *call, *request).start();
  return failed(code, "the MPI call", error) ? nullptr : request.release();
}

int test(void* request, Text error) {
  auto& r = *static_cast<Request*>(request);
  int done = 0;
  const bool broken = failed(MPI_Test(&r.request, &done, MPI_STATUS_IGNORE), "MPI_Test", error);
  if (!broken && done == 0) return 0;
  if (!broken && r.result != nullptr && !r.staging.empty())
    std::memcpy(r.result, r.staging.data(), r.staging.size() - 1);
  delete &r;
  return broken ? -1 : 1;
}

}  // namespace
}  // namespace trireme::mpi

extern "C" __attribute__((visibility("default"))) const trireme::mpi::Adapter* trireme_mpi_adapter() {
  using namespace trireme::mpi;
  static const Adapter table = {
      kAdapterVersion,
      is_initialized,
      open,
      split,
      close,
      [](void* communicator) { return static_cast<Communicator*>(communicator)->rank; },
      [](void* communicator) { return static_cast<Communicator*>(communicator)->size; },
      library_version,
      start,
      test,
  };
  return &table;
}
