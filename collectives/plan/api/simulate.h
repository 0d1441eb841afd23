// simulate: how long a plan takes on a uniform network (the alpha-beta model).
//
// A message of b bytes occupies its sender for b * beta and arrives alpha later; a
// receiver takes messages of different senders at once. Reducing or copying b bytes
// costs b * gamma. Shared memory: fetching b posted bytes takes b * beta, and alpha after
// both ranks are ready; exposed ones, and stores into another rank's memory, take b * beta,
// and a fence alpha. A rank's round ends with its last operation. Sources: Hockney 1994;
// Thakur, Rabenseifner, Gropp 2005.
// Pure. REQUIRES: the plan passes check_plan.
#pragma once

#include "collectives/plan/api/plan.h"

namespace trireme::plan {

struct Network {
  double alpha_s = 2e-6;            // Latency of a message.
  double beta_s_per_byte = 2e-10;   // Inverse bandwidth.
  double gamma_s_per_byte = 1e-10;  // Local reduction or copy.
};

struct Simulation {
  double seconds = 0;               // The last rank's end.
  std::int64_t bytes_sent_max = 0;  // By the busiest rank.
  std::int64_t messages_max = 0;
};

Simulation simulate(const Plan& plan, const Network& network);

}  // namespace trireme::plan
