// ShimConnection: what a launch engine hands the coordinator, one per host.
//
// An engine (launcher/engines/) knows how to get a shim running somewhere; the
// coordinator knows only the stream to it and how to make sure that nothing of it is
// left. Thread safety: as Socket.
#pragma once

#include <functional>

#include "runtime/platform/api/sockets.h"

namespace trireme {

struct ShimConnection {
  Socket socket;
  // Waits for the shim's end, and ends whatever a shim that died before its ranks has
  // left. Called once, after the stream ended or to give up on it.
  std::function<void()> clean_up;
};

}  // namespace trireme
