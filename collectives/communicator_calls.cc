// The calls of a Communicator: each says what it is and hands on.
#include <numeric>

#include <trireme/base/hash.h>

#include "collectives/communicator_impl.h"

namespace trireme {
namespace {

using Details = std::unique_ptr<CallDetails>;

std::int32_t fingerprint(std::uint64_t hash) {
  const auto folded = static_cast<std::uint32_t>(hash ^ (hash >> 32));
  return static_cast<std::int32_t>(folded);
}

Details details_of(const Reduction& op) {
  if (op.kind() == Reduction::Kind::named) return nullptr;
  auto details = std::make_unique<CallDetails>();
  details->custom = op.function();
  details->factor = op.factor();
  return details;
}

Call reduction(CallKind kind, std::size_t count, DataType type, const Reduction& op, int root = 0) {
  Call call = make_call(kind, count, type, op.op(), root);
  if (op.kind() == Reduction::Kind::scaled_sum) call.combining = Combining::scaled_sum;
  if (op.kind() == Reduction::Kind::custom) {
    call.combining = op.function()->commutative ? Combining::custom : Combining::custom_in_order;
    call.tag = fingerprint(hash64(op.function()->name));
  }
  return call;
}

std::vector<std::int64_t> copy_of(Counts counts) {
  std::vector<std::int64_t> copy;
  copy.reserve(counts.size());
  // A count past what can be is refused later, as a negative one.
  for (const std::size_t count : counts) copy.push_back(static_cast<std::int64_t>(count));
  return copy;
}

Details with_counts(Counts counts, Details details = nullptr) {
  if (details == nullptr) details = std::make_unique<CallDetails>();
  details->counts = copy_of(counts);
  return details;
}

Details with_counts(Counts send_counts, Counts receive_counts) {
  Details details = with_counts(send_counts);
  details->receive_counts = copy_of(receive_counts);
  return details;
}

// The same counts on all ranks: their sum and their fingerprint are compared.
Call uneven(Call call, Counts counts) {
  call.count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  call.tag ^= fingerprint(hash64(counts.data(), counts.size_bytes()));
  return call;
}

}  // namespace

Status Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type,
                                const Reduction& op) {
  return impl_->call(reduction(CallKind::all_reduce, count, type, op), input, output, details_of(op));
}
Work Communicator::all_reduce_async(const void* input, void* output, std::size_t count, DataType type,
                                    const Reduction& op) {
  return impl_->call_async(reduction(CallKind::all_reduce, count, type, op), input, output, details_of(op));
}

Status Communicator::reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op,
                            int root) {
  return impl_->call(reduction(CallKind::reduce, count, type, op, root), input, output, details_of(op));
}
Work Communicator::reduce_async(const void* input, void* output, std::size_t count, DataType type, const Reduction& op,
                                int root) {
  return impl_->call_async(reduction(CallKind::reduce, count, type, op, root), input, output, details_of(op));
}

Status Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                                    const Reduction& op) {
  return impl_->call(reduction(CallKind::reduce_scatter, count, type, op), input, output, details_of(op));
}
Work Communicator::reduce_scatter_async(const void* input, void* output, std::size_t count, DataType type,
                                        const Reduction& op) {
  return impl_->call_async(reduction(CallKind::reduce_scatter, count, type, op), input, output, details_of(op));
}

Status Communicator::broadcast(const void* input, void* output, std::size_t count, DataType type, int root) {
  return impl_->call(make_call(CallKind::broadcast, count, type, ReduceOp::sum, root), input, output);
}
Work Communicator::broadcast_async(const void* input, void* output, std::size_t count, DataType type, int root) {
  return impl_->call_async(make_call(CallKind::broadcast, count, type, ReduceOp::sum, root), input, output);
}

Status Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type) {
  return impl_->call(make_call(CallKind::all_gather, count, type), input, output);
}
Work Communicator::all_gather_async(const void* input, void* output, std::size_t count, DataType type) {
  return impl_->call_async(make_call(CallKind::all_gather, count, type), input, output);
}

Status Communicator::gather(const void* input, void* output, std::size_t count, DataType type, int root) {
  return impl_->call(make_call(CallKind::gather, count, type, ReduceOp::sum, root), input, output);
}
Work Communicator::gather_async(const void* input, void* output, std::size_t count, DataType type, int root) {
  return impl_->call_async(make_call(CallKind::gather, count, type, ReduceOp::sum, root), input, output);
}

Status Communicator::scatter(const void* input, void* output, std::size_t count, DataType type, int root) {
  return impl_->call(make_call(CallKind::scatter, count, type, ReduceOp::sum, root), input, output);
}
Work Communicator::scatter_async(const void* input, void* output, std::size_t count, DataType type, int root) {
  return impl_->call_async(make_call(CallKind::scatter, count, type, ReduceOp::sum, root), input, output);
}

Status Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type) {
  return impl_->call(make_call(CallKind::all_to_all, count, type), input, output);
}
Work Communicator::all_to_all_async(const void* input, void* output, std::size_t count, DataType type) {
  return impl_->call_async(make_call(CallKind::all_to_all, count, type), input, output);
}

Status Communicator::barrier() {
  return impl_->call(make_call(CallKind::barrier, 0, DataType::u8), nullptr, nullptr);
}
Work Communicator::barrier_async() {
  return impl_->call_async(make_call(CallKind::barrier, 0, DataType::u8), nullptr, nullptr);
}

// ---- uneven parts ----

Status Communicator::all_gather_v(const void* input, void* output, Counts counts, DataType type) {
  return impl_->call(uneven(make_call(CallKind::all_gather_v, 0, type), counts), input, output, with_counts(counts));
}
Work Communicator::all_gather_v_async(const void* input, void* output, Counts counts, DataType type) {
  return impl_->call_async(uneven(make_call(CallKind::all_gather_v, 0, type), counts), input, output,
                           with_counts(counts));
}

Status Communicator::reduce_scatter_v(const void* input, void* output, Counts counts, DataType type,
                                      const Reduction& op) {
  return impl_->call(uneven(reduction(CallKind::reduce_scatter_v, 0, type, op), counts), input, output,
                     with_counts(counts, details_of(op)));
}
Work Communicator::reduce_scatter_v_async(const void* input, void* output, Counts counts, DataType type,
                                          const Reduction& op) {
  return impl_->call_async(uneven(reduction(CallKind::reduce_scatter_v, 0, type, op), counts), input, output,
                           with_counts(counts, details_of(op)));
}

Status Communicator::gather_v(const void* input, void* output, Counts counts, DataType type, int root) {
  return impl_->call(uneven(make_call(CallKind::gather_v, 0, type, ReduceOp::sum, root), counts), input, output,
                     with_counts(counts));
}
Work Communicator::gather_v_async(const void* input, void* output, Counts counts, DataType type, int root) {
  return impl_->call_async(uneven(make_call(CallKind::gather_v, 0, type, ReduceOp::sum, root), counts), input, output,
                           with_counts(counts));
}

Status Communicator::scatter_v(const void* input, void* output, Counts counts, DataType type, int root) {
  return impl_->call(uneven(make_call(CallKind::scatter_v, 0, type, ReduceOp::sum, root), counts), input, output,
                     with_counts(counts));
}
Work Communicator::scatter_v_async(const void* input, void* output, Counts counts, DataType type, int root) {
  return impl_->call_async(uneven(make_call(CallKind::scatter_v, 0, type, ReduceOp::sum, root), counts), input, output,
                           with_counts(counts));
}

Status Communicator::all_to_all_v(const void* input, Counts send_counts, void* output, Counts receive_counts,
                                  DataType type) {
  return impl_->call(make_call(CallKind::all_to_all_v, 0, type), input, output,
                     with_counts(send_counts, receive_counts));
}
Work Communicator::all_to_all_v_async(const void* input, Counts send_counts, void* output, Counts receive_counts,
                                      DataType type) {
  return impl_->call_async(make_call(CallKind::all_to_all_v, 0, type), input, output,
                           with_counts(send_counts, receive_counts));
}

// ---- messages ----

Status Communicator::send(const void* data, std::size_t count, DataType type, int destination, int tag) {
  return impl_->call(make_call(CallKind::send, count, type, ReduceOp::sum, destination, tag), data, nullptr);
}
Work Communicator::send_async(const void* data, std::size_t count, DataType type, int destination, int tag) {
  return impl_->call_async(make_call(CallKind::send, count, type, ReduceOp::sum, destination, tag), data, nullptr);
}

Status Communicator::receive(void* data, std::size_t count, DataType type, int source, int tag) {
  return impl_->call(make_call(CallKind::receive, count, type, ReduceOp::sum, source, tag), nullptr, data);
}
Work Communicator::receive_async(void* data, std::size_t count, DataType type, int source, int tag) {
  return impl_->call_async(make_call(CallKind::receive, count, type, ReduceOp::sum, source, tag), nullptr, data);
}

}  // namespace trireme
