#include "collectives/nccl_interface/operation.h"

#include <cstring>
#include <limits>

#include <fmt/core.h>

#include "collectives/nccl_interface/scalar.h"

namespace trireme::nccl {
namespace {

constexpr ReduceOp kNamedOps[kNamedOpCount] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min,
                                               ReduceOp::average};
constexpr DataType kTypes[kTypeCount] = {DataType::i8,  DataType::u8,   DataType::i32,     DataType::u32,
                                         DataType::i64, DataType::u64,  DataType::f16,     DataType::f32,
                                         DataType::f64, DataType::bf16, DataType::f8_e4m3, DataType::f8_e5m2};

bool is_message(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}

Outcome cuda_outcome(const Status& status) {
  if (status.is_ok()) return {};
  return {Code::unhandled_cuda_error, status.to_string()};
}

}  // namespace

Outcome data_type_of(int type, DataType& found) {
  if (type < 0 || type >= kTypeCount) {
    return bad_argument(fmt::format("{} is no ncclDataType_t: expected 0 to {}", type, kTypeCount - 1));
  }
  found = kTypes[type];
  return {};
}

Operation::Operation(const Request& request, std::shared_ptr<Comm> comm, std::shared_ptr<Communicator> communicator)
    : request_(request), comm_(std::move(comm)), communicator_(std::move(communicator)) {}

Operation::~Operation() {
  for (Buffer* buffer : {&input_, &output_}) {
    if (buffer->memory != nullptr) device_->deallocate_host(buffer->memory);
  }
}

Outcome Operation::check(const Request& request, std::shared_ptr<Comm> comm, std::unique_ptr<Operation>& checked) {
  std::shared_ptr<Communicator> communicator;
  const Outcome usable = comm->usable(communicator);
  if (!usable.is_ok()) return usable;
  std::unique_ptr<Operation> made(new Operation(request, std::move(comm), std::move(communicator)));
  Outcome outcome = data_type_of(request.type, made->type_);
  if (outcome.is_ok() && made->reduces()) outcome = made->find_reduction();
  if (outcome.is_ok()) outcome = made->check_buffers();
  if (outcome.is_ok()) checked = std::move(made);
  return outcome;
}

bool Operation::is_rooted() const {
  return request_.kind == Kind::reduce || request_.kind == Kind::broadcast || request_.kind == Kind::gather ||
         request_.kind == Kind::scatter;
}

std::size_t Operation::sends() const {
  const auto ranks = static_cast<std::size_t>(comm_->size());
  const bool at_root = comm_->rank() == request_.peer;
  switch (request_.kind) {
    case Kind::receive:
      return 0;
    case Kind::broadcast:
      return at_root ? request_.count : 0;
    case Kind::scatter:
      return at_root ? request_.count * ranks : 0;
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return request_.count * ranks;
    default:
      return request_.count;
  }
}

std::size_t Operation::receives() const {
  const auto ranks = static_cast<std::size_t>(comm_->size());
  const bool at_root = comm_->rank() == request_.peer;
  switch (request_.kind) {
    case Kind::send:
      return 0;
    case Kind::reduce:
      return at_root ? request_.count : 0;
    case Kind::gather:
      return at_root ? request_.count * ranks : 0;
    case Kind::all_gather:
    case Kind::all_to_all:
      return request_.count * ranks;
    default:
      return request_.count;
  }
}

Outcome Operation::check_buffers() const {
  if ((is_rooted() || is_message(request_.kind)) && (request_.peer < 0 || request_.peer >= comm_->size())) {
    return bad_argument(fmt::format("{} {} is no rank of this communicator: expected 0 to {}",
                                    is_rooted() ? "root" : "peer", request_.peer, comm_->size() - 1));
  }
  const std::size_t most = std::numeric_limits<std::size_t>::max() / 2 / size_of(type_) / comm_->size();
  if (request_.count > most) {
    return bad_argument(fmt::format("count {} exceeds what memory can hold ({} elements)", request_.count, most));
  }
  if (sends() > 0 && request_.send == nullptr) return bad_argument("sendbuff is NULL though count is not 0");
  if (receives() > 0 && request_.receive == nullptr) return bad_argument("recvbuff is NULL though count is not 0");
  return {};
}

Outcome Operation::find_reduction() {
  if (request_.op >= 0 && request_.op < kNamedOpCount) {
    reduction_ = Reduction(kNamedOps[request_.op]);
    return {};
  }
  const Outcome found = comm_->find_operator(request_.op, scaled_);
  if (!found.is_ok()) return found;
  if (scaled_.type != type_) {
    return bad_argument(fmt::format("the reduction operator was made for {}, the call is of {}",
                                    to_string(scaled_.type), to_string(type_)));
  }
  reduction_ = Reduction::scaled_sum(scaled_.factor);
  return {};
}

Outcome Operation::make_buffer(const void* user, std::size_t bytes, Buffer& buffer) {
  if (bytes == 0 || !device_->is_device_memory(user)) return {};
  const auto memory = device_->allocate_host(bytes);
  if (!memory.is_ok()) return cuda_outcome(memory.status());
  buffer = {memory.value(), bytes};
  return {};
}

// A scalar in memory of the device's counts when the collective runs, that is now.
Outcome Operation::read_scalar(const ScaledSum& sum, Reduction& reduction) {
  unsigned char value[8] = {};
  if (device_ != nullptr && device_->is_device_memory(sum.scalar)) {
    Status copied = device_->copy(value, sum.scalar, size_of(sum.type), request_.stream);
    if (copied.is_ok()) copied = device_->synchronize(request_.stream);
    if (!copied.is_ok()) return cuda_outcome(copied);
  } else {
    std::memcpy(value, sum.scalar, size_of(sum.type));
  }
  double factor = 0;
  const Outcome known = scalar_value(value, sum.type, factor);
  if (known.is_ok()) reduction = Reduction::scaled_sum(factor);
  return known;
}

Outcome Operation::stage() {
  device_ = accelerator();
  if (device_ != nullptr) {
    const ScopedPlace here(device_, comm_->place());
    if (device_->is_capturing(request_.stream)) {
      return bad_usage(
          "the stream is being captured into a graph: this library works on the host and cannot be "
          "captured; call it outside of the capture");
    }
    // Inputs on the host may be written by what the stream still holds, too.
    const Status ready = device_->synchronize(request_.stream);
    if (!ready.is_ok()) return cuda_outcome(ready);
    Outcome made = make_buffer(request_.send, sends() * size_of(type_), input_);
    if (made.is_ok()) made = make_buffer(request_.receive, receives() * size_of(type_), output_);
    if (!made.is_ok()) return made;
    if (input_.memory != nullptr) {
      Status copied = device_->copy(input_.memory, request_.send, input_.bytes, request_.stream);
      if (copied.is_ok()) copied = device_->synchronize(request_.stream);
      if (!copied.is_ok()) return cuda_outcome(copied);
    }
  }
  if (reduces() && scaled_.scalar != nullptr) return read_scalar(scaled_, reduction_);
  return {};
}

Status Operation::start() {
  Communicator& c = *communicator_;
  const void* in = input_.memory != nullptr ? input_.memory : request_.send;
  void* out = output_.memory != nullptr ? output_.memory : request_.receive;
  const std::size_t count = request_.count;
  const int peer = request_.peer;
  switch (request_.kind) {
    case Kind::all_reduce:
      return c.all_reduce(in, out, count, type_, reduction_);
    case Kind::reduce:
      return c.reduce(in, out, count, type_, reduction_, peer);
    case Kind::broadcast:
      return c.broadcast(in, out, count, type_, peer);
    case Kind::all_gather:
      return c.all_gather(in, out, count, type_);
    case Kind::reduce_scatter:
      return c.reduce_scatter(in, out, count, type_, reduction_);
    case Kind::all_to_all:
      return c.all_to_all(in, out, count, type_);
    case Kind::gather:
      return c.gather(in, out, count, type_, peer);
    case Kind::scatter:
      return c.scatter(in, out, count, type_, peer);
    case Kind::send:
      return c.send(in, count, type_, peer);
    case Kind::receive:
      return c.receive(out, count, type_, peer);
  }
  return {};
}

Outcome Operation::unstage() {
  if (output_.memory == nullptr) return {};
  const ScopedPlace here(device_, comm_->place());
  Status copied = device_->copy(request_.receive, output_.memory, output_.bytes, request_.stream);
  if (copied.is_ok()) copied = device_->synchronize(request_.stream);
  return cuda_outcome(copied);
}

}  // namespace trireme::nccl
