#include "collectives/nccl/nccl_backend.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include <fmt/core.h>
#include <trireme/device/device.h>

#include "collectives/nccl/nccl_library.h"

namespace trireme {
namespace {

constexpr std::uint64_t kIdTimeoutMs = 60'000;

constexpr ncclDataType_t kNoType = ncclNumTypes;
ncclDataType_t nccl_type(DataType type) {
  constexpr ncclDataType_t kTypes[kDataTypeCount] = {
      ncclFloat64, ncclFloat32, ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2, ncclInt8,
      ncclUint8,   ncclInt32,   ncclUint32,  ncclInt64,    ncclUint64,     kNoType};
  return kTypes[static_cast<int>(type)];
}

// Moved bytes have no value.
ncclDataType_t moved_type(DataType type) {
  return type == DataType::boolean ? ncclUint8 : nccl_type(type);
}

ncclRedOp_t nccl_op(ReduceOp op) {
  constexpr ncclRedOp_t kOps[kReduceOpCount] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
  return kOps[static_cast<int>(op)];
}

Status check(const NcclLibrary& library, ncclResult_t result, ncclComm_t comm, const std::string& what) {
  if (result == ncclSuccess || result == ncclInProgress) return {};
  const std::string text =
      fmt::format("backend nccl: {}: {} ({})", what, library.error_string(result), library.last_error(comm));
  return result == ncclRemoteError ? peer_dead(text) : io_error(text);
}

bool is_device_memory(const void* pointer) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

// Shared by a communicator, its parts and their requests.
struct Gpu {
  const NcclLibrary& library;
  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  void* element;  // Of device memory, for barriers.
  Gpu(const NcclLibrary& nccl, std::shared_ptr<Device> gpu, std::unique_ptr<Stream> queue, void* memory)
      : library(nccl), device(std::move(gpu)), stream(std::move(queue)), element(memory) {}
  ~Gpu() { device->deallocate(element, MemoryKind::device); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  cudaStream_t native() const { return static_cast<cudaStream_t>(stream->native_handle()); }
  void enter() const { (void)cudaSetDevice(device->id().index); }
};

class NcclRequest final : public BackendRequest {
 public:
  NcclRequest(std::shared_ptr<Gpu> gpu, ncclComm_t comm) : gpu_(std::move(gpu)), comm_(comm) {}
  // The end of what is on the stream by now.
  Status record() {
    TRIREME_ASSIGN_OR_RETURN(event_, gpu_->stream->record());
    return {};
  }
  Result<bool> test() override {
    if (event_ == nullptr) return false;  // Its group has not ended.
    if (event_->ready()) return true;
    ncclResult_t state = ncclSuccess;
    TRIREME_RETURN_IF_ERROR(
        check(gpu_->library, gpu_->library.async_error(comm_, &state), comm_, "ncclCommGetAsyncError"));
    TRIREME_RETURN_IF_ERROR(check(gpu_->library, state, comm_, "an operation in flight"));
    return false;
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  ncclComm_t comm_;
  std::shared_ptr<Event> event_;
};

class NcclCommunicator final : public BackendCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<Gpu> gpu, ncclComm_t comm, int rank, int size)
      : gpu_(std::move(gpu)), l_(gpu_->library), comm_(comm), rank_(rank), size_(size) {
    info_.name = "nccl";
    info_.version =
        fmt::format("NCCL {}.{}.{} ({})", l_.version / 10000, l_.version / 100 % 100, l_.version % 100, l_.path);
    info_.names_culprit = info_.host_memory = false;
    info_.device_memory = true;
    info_.scaled_and_custom = info_.uneven_parts = info_.ranks_as_threads = false;
  }
  ~NcclCommunicator() override {
    gpu_->enter();
    if (comm_ != nullptr) (void)l_.destroy(comm_);
  }

  const BackendInfo& info() const override { return info_; }

  Status supports(const Call& call, const CallDetails*) const override {
    const bool reduces = !is_message(call.kind) && plan::reduces(collective_of(call.kind));
    if (reduces && nccl_type(call.type) == kNoType) {
      return backend_refuses("nccl", call, "does not reduce " + std::string(to_string(call.type)));
    }
    if (is_uneven(call.kind)) return backend_refuses("nccl", call, "has no uneven parts");
    if (is_message(call.kind) && call.tag != 0) return backend_refuses("nccl", call, "has no tags: pass tag 0");
    if (reduces && call.combining != Combining::named) {
      return backend_refuses("nccl", call, "is given only named reductions");
    }
    return {};
  }

  Result<std::unique_ptr<BackendRequest>> start(const Call& call, const CallDetails*, const void* input,
                                                void* output) override {
    gpu_->enter();
    for (const void* buffer : {input, static_cast<const void*>(output)}) {
      if (call.count == 0 || buffer == nullptr || is_device_memory(buffer)) continue;
      return backend_refuses("nccl", call,
                             "moves device memory, and a buffer is host memory: allocate it with cudaMalloc");
    }
    TRIREME_RETURN_IF_ERROR(enqueue(call, input, output));
    auto request = std::make_unique<NcclRequest>(gpu_, comm_);
    if (grouped_) {
      waiting_.push_back(request.get());
    } else {
      TRIREME_RETURN_IF_ERROR(request->record());
    }
    return std::unique_ptr<BackendRequest>(std::move(request));
  }

  BackendResult split(int color, int key) override {
    gpu_->enter();
    ncclComm_t part = nullptr;
    TRIREME_RETURN_IF_ERROR(check(l_, l_.split(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, nullptr),
                                  comm_, "ncclCommSplit"));
    if (part == nullptr) return std::unique_ptr<BackendCommunicator>();
    int rank = 0;
    int size = 0;
    TRIREME_RETURN_IF_ERROR(check(l_, l_.user_rank(part, &rank), part, "ncclCommUserRank"));
    TRIREME_RETURN_IF_ERROR(check(l_, l_.count(part, &size), part, "ncclCommCount"));
    return std::unique_ptr<BackendCommunicator>(std::make_unique<NcclCommunicator>(gpu_, part, rank, size));
  }

  void abort() override {
    if (comm_ != nullptr) (void)l_.abort(std::exchange(comm_, nullptr));
  }

  Status begin_group() override {
    grouped_ = true;
    return check(l_, l_.group_start(), comm_, "ncclGroupStart");
  }
  Status end_group() override {
    grouped_ = false;
    gpu_->enter();
    const Status ended = check(l_, l_.group_end(), comm_, "ncclGroupEnd");
    const std::vector<NcclRequest*> waiting = std::exchange(waiting_, {});
    if (!ended.is_ok()) return ended;
    for (NcclRequest* request : waiting) TRIREME_RETURN_IF_ERROR(request->record());
    return {};
  }

 private:
  Status enqueue(const Call& call, const void* input, void* output) {
    if (comm_ == nullptr) return aborted("backend nccl: the communicator was aborted");
    const ncclDataType_t type = moved_type(call.type);
    const std::size_t count = call.count;
    const cudaStream_t stream = gpu_->native();
    ncclResult_t result = ncclSuccess;
    switch (call.kind) {
      case CallKind::all_reduce:
        result = l_.all_reduce(input, output, count, type, nccl_op(call.op), comm_, stream);
        break;
      case CallKind::reduce:
        result = l_.reduce(input, output, count, type, nccl_op(call.op), call.root, comm_, stream);
        break;
      case CallKind::reduce_scatter:
        result = l_.reduce_scatter(input, output, count, type, nccl_op(call.op), comm_, stream);
        break;
      case CallKind::broadcast:
        result = l_.broadcast(input, output, count, type, call.root, comm_, stream);
        break;
      case CallKind::all_gather:
        result = l_.all_gather(input, output, count, type, comm_, stream);
        break;
      case CallKind::send:
        result = l_.send(input, count, type, call.root, comm_, stream);
        break;
      case CallKind::receive:
        result = l_.receive(output, count, type, call.root, comm_, stream);
        break;
      case CallKind::barrier:
        // A reduction of one element that every rank must enter.
        result = l_.all_reduce(gpu_->element, gpu_->element, 1, ncclFloat32, ncclSum, comm_, stream);
        break;
      default:
        return exchange_parts(call, input, output, type);
    }
    return check(l_, result, comm_, describe(call));
  }

  // all_to_all, gather and scatter are messages, as NCCL before 2.28 has it.
  Status exchange_parts(const Call& call, const void* input, void* output, ncclDataType_t type) {
    const std::size_t part = call.count * size_of(call.type);
    const cudaStream_t stream = gpu_->native();
    const bool to_all = call.kind == CallKind::all_to_all;
    TRIREME_RETURN_IF_ERROR(check(l_, l_.group_start(), comm_, "ncclGroupStart"));
    ncclResult_t first = ncclSuccess;
    const auto keep = [&](ncclResult_t result) { first = first == ncclSuccess ? result : first; };
    for (int peer = 0; peer < size_; ++peer) {
      const std::size_t at = part * static_cast<std::size_t>(peer);
      const auto* from = static_cast<const char*>(input);
      auto* to = static_cast<char*>(output);
      const bool scatters = call.kind == CallKind::scatter;
      if (to_all || (scatters && rank_ == call.root)) keep(l_.send(from + at, call.count, type, peer, comm_, stream));
      if (to_all || (!scatters && rank_ == call.root)) keep(l_.receive(to + at, call.count, type, peer, comm_, stream));
    }
    if (call.kind == CallKind::scatter) keep(l_.receive(output, call.count, type, call.root, comm_, stream));
    if (call.kind == CallKind::gather) keep(l_.send(input, call.count, type, call.root, comm_, stream));
    keep(l_.group_end());
    return check(l_, first, comm_, describe(call));
  }

  std::shared_ptr<Gpu> gpu_;
  const NcclLibrary& l_;
  ncclComm_t comm_;
  const int rank_;
  const int size_;
  BackendInfo info_;
  bool grouped_ = false;
  std::vector<NcclRequest*> waiting_;  // Of the open group.
};

Result<std::shared_ptr<Device>> gpu_of(const World& world) {
  std::vector<std::shared_ptr<Device>> gpus;
  for (const auto& device : devices().devices) {
    if (device->id().kind == DeviceKind::cuda) gpus.push_back(device);
  }
  if (gpus.empty()) return unavailable("this rank has no GPU (" + devices().note + "); NCCL moves device memory only");
  return gpus[static_cast<std::size_t>(world.local_rank()) % gpus.size()];
}

Result<ncclUniqueId> share_id(const NcclLibrary& library, World& world) {
  TRIREME_ASSIGN_OR_RETURN(const std::int64_t ordinal,
                           world.add(fmt::format("trireme/nccl/communicators/{}", world.rank()), 1));
  const std::string key = fmt::format("trireme/nccl/id/{}", ordinal);
  ncclUniqueId id{};
  if (world.rank() == 0) {
    TRIREME_RETURN_IF_ERROR(check(library, library.get_unique_id(&id), nullptr, "ncclGetUniqueId"));
    TRIREME_RETURN_IF_ERROR(world.put(key, std::string_view(id.internal, sizeof id.internal)));
    return id;
  }
  TRIREME_ASSIGN_OR_RETURN(const std::string bytes, world.get(key, Deadline::after_ms(kIdTimeoutMs)));
  if (bytes.size() != sizeof id.internal) return data_loss("a malformed NCCL id came from rank 0");
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return id;
}

}  // namespace

BackendResult make_nccl_backend(const std::shared_ptr<World>& world) {
  TRIREME_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, gpu_of(*world));
  TRIREME_ASSIGN_OR_RETURN(const NcclLibrary* const library, load_nccl());
  TRIREME_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, device->make_stream());
  TRIREME_ASSIGN_OR_RETURN(void* const element, device->allocate(64, MemoryKind::device));
  TRIREME_RETURN_IF_ERROR(stream->fill_zero(element, 64));
  auto gpu = std::make_shared<Gpu>(*library, std::move(device), std::move(stream), element);
  gpu->enter();
  TRIREME_ASSIGN_OR_RETURN(const ncclUniqueId id, share_id(*library, *world));
  ncclComm_t comm = nullptr;
  TRIREME_RETURN_IF_ERROR(
      check(*library, library->init_rank(&comm, world->size(), id, world->rank()), nullptr, "ncclCommInitRank"));
  return std::unique_ptr<BackendCommunicator>(
      std::make_unique<NcclCommunicator>(gpu, comm, world->rank(), world->size()));
}

}  // namespace trireme
