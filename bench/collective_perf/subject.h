// Subject: what a *_perf program measures.
#pragma once

#include <string_view>

#include "collectives/plan/api/plan.h"

namespace trireme::bench {

struct Subject {
  std::string_view program;     // "alltoall_perf", as nccl-tests calls it.
  std::string_view op;          // "all_to_all": in rows.
  plan::Collective collective;  // Of messages, the one with buffers of the same sizes.
  bool messages = false;        // Every rank sends to the next one and receives from the one before.

  bool rooted() const { return !messages && plan::is_rooted(collective); }
  bool has_in_place() const { return !messages && collective != plan::Collective::all_to_all; }
};

}  // namespace trireme::bench
