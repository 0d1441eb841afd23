// The CUDA device: memory, streams, events, pinned host memory and peer access through
// the CUDA runtime, which is linked statically, so that one binary runs with or without
// a driver.
#pragma once

#include <memory>

#include <trireme/device/device.h>

namespace trireme {

// Every GPU that is usable from this process becomes a device of `list`; why there is
// none (built without CUDA, no driver, none visible) is appended to its note.
void append_cuda_devices(DeviceList& list);

}  // namespace trireme
