#include "tests/multi_host/checked_calls.h"

#include <string>

#include <trireme/base/hash.h>

namespace trireme::test {

float CheckedCalls::value(int r, std::size_t i) const {
  return static_cast<float>((static_cast<std::uint64_t>(r) * 31 + i * 7 + call_ * 13) % 101);
}

float CheckedCalls::sum(std::size_t i) const {
  float total = 0;
  for (int r = 0; r < c_.size(); ++r) total += value(r, i);
  return total;
}

Status CheckedCalls::expect(const char* what, const float* data, std::size_t count,
                            float (CheckedCalls::*wanted)(std::size_t) const, std::size_t first) {
  for (std::size_t i = 0; i < count; ++i) {
    if (data[i] == (this->*wanted)(first + i)) continue;
    return data_loss(std::string(what) + ", call " + std::to_string(call_) + ", element " + std::to_string(i));
  }
  return Status::ok();
}

Status CheckedCalls::all_reduce(std::size_t count) {
  TRIREME_RETURN_IF_ERROR(c_.all_reduce(in_.data(), out_.data(), count, DataType::f32, ReduceOp::sum));
  return expect("all_reduce", out_.data(), count, &CheckedCalls::sum, 0);
}

Status CheckedCalls::reduce(std::size_t count, int root) {
  TRIREME_RETURN_IF_ERROR(c_.reduce(in_.data(), out_.data(), count, DataType::f32, ReduceOp::sum, root));
  return c_.rank() == root ? expect("reduce", out_.data(), count, &CheckedCalls::sum, 0) : Status::ok();
}

Status CheckedCalls::broadcast(std::size_t count, int root) {
  root_ = root;
  TRIREME_RETURN_IF_ERROR(c_.broadcast(in_.data(), out_.data(), count, DataType::f32, root));
  return expect("broadcast", out_.data(), count, &CheckedCalls::of_root, 0);
}

Status CheckedCalls::all_gather(std::size_t count) {
  out_.resize(count * static_cast<std::size_t>(c_.size()));
  TRIREME_RETURN_IF_ERROR(c_.all_gather(in_.data(), out_.data(), count, DataType::f32));
  for (root_ = 0; root_ < c_.size(); ++root_) {
    const float* part = out_.data() + static_cast<std::size_t>(root_) * count;
    TRIREME_RETURN_IF_ERROR(expect("all_gather", part, count, &CheckedCalls::of_root, 0));
  }
  return Status::ok();
}

Status CheckedCalls::reduce_scatter(std::size_t count) {
  const std::size_t ranks = static_cast<std::size_t>(c_.size());
  in_.resize(count * ranks);
  for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = value(c_.rank(), i);
  TRIREME_RETURN_IF_ERROR(c_.reduce_scatter(in_.data(), out_.data(), count, DataType::f32, ReduceOp::sum));
  return expect("reduce_scatter", out_.data(), count, &CheckedCalls::sum, count * static_cast<std::size_t>(c_.rank()));
}

// To the next rank, from the one before.
Status CheckedCalls::around(std::size_t count) {
  const int next = (c_.rank() + 1) % c_.size();
  root_ = (c_.rank() + c_.size() - 1) % c_.size();
  Work sent = c_.send_async(in_.data(), count, DataType::f32, next);
  const Status received = c_.receive(out_.data(), count, DataType::f32, root_);
  TRIREME_RETURN_IF_ERROR(sent.wait());
  TRIREME_RETURN_IF_ERROR(received);
  return expect("send and receive", out_.data(), count, &CheckedCalls::of_root, 0);
}

Status CheckedCalls::run(std::uint64_t call) {
  call_ = call;
  const std::uint64_t random = hash64(&call, sizeof call);
  const std::size_t count = random / 64 % 3 == 0 ? random / 256 % 200'000 : random / 256 % 3'000;
  const int root = static_cast<int>(random / 1024 % static_cast<std::uint64_t>(c_.size()));
  in_.resize(count);
  for (std::size_t i = 0; i < count; ++i) in_[i] = value(c_.rank(), i);
  out_.assign(count, -1.0f);
  switch (random % 7) {
    case 0:
      return all_reduce(count);
    case 1:
      return reduce(count, root);
    case 2:
      return broadcast(count, root);
    case 3:
      return all_gather(count);
    case 4:
      return reduce_scatter(count);
    case 5:
      return around(count);
    default:
      return c_.barrier();
  }
}

}  // namespace trireme::test
