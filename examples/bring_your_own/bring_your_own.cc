// Your arrays, your gradients, our ranks: a small neural network written in plain C++
// and trained by data parallelism with nothing of Trireme but World and Communicator.
//
// A network with one hidden layer learns whether a point lies inside a ring. Sample i
// belongs to rank i % size; each rank adds up loss and gradient over its own samples,
// and one all-reduce turns the parts into the whole. So every number of ranks takes the
// same steps, up to rounding.
//
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=<where Trireme is installed> && cmake --build build
//   trireme run -n 3 -- build/bring_your_own
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include <trireme/collectives/communicator.h>
#include <trireme/rendezvous/world.h>

namespace {

constexpr int kSamples = 1000;
constexpr int kHidden = 16;
constexpr int kParameters = 4 * kHidden + 1;  // Per hidden unit two weights, a bias, an output weight; one bias more.
constexpr int kSteps = 400;
constexpr double kRate = 1.0;

struct Sample {
  double x, y;
  bool inside;
};

// Points of a low-discrepancy sequence over [-1, 1]^2.
Sample make_sample(int i) {
  const double x = 2 * std::fmod(0.5 + i * 0.7548776662466927, 1.0) - 1;
  const double y = 2 * std::fmod(0.5 + i * 0.5698402909980532, 1.0) - 1;
  const double radius = std::sqrt(x * x + y * y);
  return {x, y, radius > 0.35 && radius < 0.8};
}

// Adds the gradient of one sample's cross entropy to `gradient`; returns its loss.
double add_gradient(const std::vector<double>& p, const Sample& s, std::vector<double>& gradient) {
  double hidden[kHidden];
  double logit = p[4 * kHidden];
  for (int h = 0; h < kHidden; ++h) {
    hidden[h] = std::tanh(p[4 * h] * s.x + p[4 * h + 1] * s.y + p[4 * h + 2]);
    logit += p[4 * h + 3] * hidden[h];
  }
  const double target = s.inside ? 1 : 0;
  const double error = 1 / (1 + std::exp(-logit)) - target;
  gradient[4 * kHidden] += error;
  for (int h = 0; h < kHidden; ++h) {
    const double back = error * p[4 * h + 3] * (1 - hidden[h] * hidden[h]);
    gradient[4 * h] += back * s.x;
    gradient[4 * h + 1] += back * s.y;
    gradient[4 * h + 2] += back;
    gradient[4 * h + 3] += error * hidden[h];
  }
  return std::log1p(std::exp(-std::fabs(logit))) + std::fmax(logit, 0) - target * logit;
}

trireme::Status train(trireme::Communicator& communicator) {
  std::vector<double> parameters(kParameters);
  for (int i = 0; i < kParameters; ++i) {  // The same on every rank.
    const bool output = i % 4 == 3 || i == 4 * kHidden;
    parameters[i] = (output ? 0.3 : 3.0) * std::sin(12.9898 * (i + 1));
  }
  std::vector<double> sums(kParameters + 1);  // The gradient, and the loss behind it.
  for (int step = 1; step <= kSteps; ++step) {
    sums.assign(sums.size(), 0.0);
    for (int i = communicator.rank(); i < kSamples; i += communicator.size()) {
      sums[kParameters] += add_gradient(parameters, make_sample(i), sums);
    }
    TRIREME_RETURN_IF_ERROR(
        communicator.all_reduce(sums.data(), sums.data(), sums.size(), trireme::DataType::f64, trireme::ReduceOp::sum));
    for (int i = 0; i < kParameters; ++i) parameters[i] -= kRate * sums[i] / kSamples;
    if (communicator.rank() == 0 && (step == 1 || step % 100 == 0)) {
      std::printf("step %d loss %.9f\n", step, sums[kParameters] / kSamples);
    }
  }
  return {};
}

trireme::Status run() {
  TRIREME_ASSIGN_OR_RETURN(auto world, trireme::World::join());
  TRIREME_ASSIGN_OR_RETURN(auto communicator, trireme::Communicator::create(world));
  return train(*communicator);
}

}  // namespace

int main() {
  const trireme::Status status = run();
  if (!status.is_ok()) std::fprintf(stderr, "bring_your_own: %s\n", status.to_string().c_str());
  return trireme::exit_code(status.code());
}
