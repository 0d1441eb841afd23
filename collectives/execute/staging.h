// Staging: a call that runs as another one, on buffers of its own.
//
// A sum of scaled contributions runs as a plain sum of scaled copies; a reproducible sum
// as sums of integers. The signature on the wire stays the caller's call.
// Thread safety: used by the thread that moves the operation.
#pragma once

#include "collectives/execute/call.h"

namespace trireme {

class Staging {
 public:
  virtual ~Staging() = default;
  // Fills `input` from the caller's buffers; called when the operation's turn has come.
  virtual void before() = 0;
  // Takes the result from `output` to the caller's; called when the plan is done.
  virtual void after() = 0;

  // What runs instead; valid from the start. The pointers are valid after before().
  Call executed;
  const void* input = nullptr;
  void* output = nullptr;
};

}  // namespace trireme
