// Collectives whose results are known: call n is the same kind, size and data on every
// rank, and every result is checked to the last element.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include <trireme/collectives/communicator.h>

namespace trireme::test {

class CheckedCalls {
 public:
  explicit CheckedCalls(Communicator& communicator) : c_(communicator) {}
  // Errors: the call's; data_loss, naming the call, when a result is wrong.
  Status run(std::uint64_t call);

 private:
  Status all_reduce(std::size_t count);
  Status reduce(std::size_t count, int root);
  Status broadcast(std::size_t count, int root);
  Status all_gather(std::size_t count);
  Status reduce_scatter(std::size_t count);
  Status around(std::size_t count);
  // What rank r contributes as element i of this call: small integers, whose sums are exact.
  float value(int r, std::size_t i) const;
  float sum(std::size_t i) const;
  Status expect(const char* what, const float* data, std::size_t count,
                float (CheckedCalls::*wanted)(std::size_t) const, std::size_t first);
  float of_root(std::size_t i) const { return value(root_, i); }

  Communicator& c_;
  std::uint64_t call_ = 0;
  int root_ = 0;
  std::vector<float> in_;
  std::vector<float> out_;
};

}  // namespace trireme::test
