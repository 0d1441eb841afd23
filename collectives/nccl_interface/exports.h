// How a C function of nccl.h is defined: under its profiling name pncclX, with ncclX as a
// weak alias that a profiler may replace, and no exception leaving it.
#pragma once

#include <exception>

#include "collectives/nccl_interface/group.h"
#include "collectives/nccl_interface/outcome.h"

// TRIREME_NCCL_CALL(int, ncclX, (int a, void* b)) { body }
#define TRIREME_NCCL_CALL(result, name, parameters)                          \
  extern "C" result p##name parameters;                                      \
  extern "C" __attribute__((weak, alias("p" #name))) result name parameters; \
  extern "C" result p##name parameters

namespace trireme::nccl {

// Runs `body`, which returns an Outcome, and answers it.
template <typename Body>
int serve(const char* function, const Body& body) {
  try {
    return answer(function, body());
  } catch (const std::exception& error) {
    return answer(function, {Code::internal_error, error.what()});
  }
}

// The same for calls that a group may hold: a refusal makes the group's end fail too.
template <typename Body>
int serve_in_group(const char* function, const Body& body) {
  return serve(function, [&] {
    Outcome outcome = body();
    if (outcome.is_ok() || outcome.code == Code::in_progress) return outcome;
    return refuse(std::move(outcome));
  });
}

}  // namespace trireme::nccl
