// Where devices() meets CUDA: one function, compiled from cuda/ in builds with CUDA and
// from no_cuda.cc in builds without.
#pragma once

#include <trireme/device/device.h>

namespace trireme {

// Appends every usable GPU; when there is none, says why in `list.note`.
void append_cuda_devices(DeviceList& list);

}  // namespace trireme
