// CUDA streams and events behind runtime/device's interface.
#pragma once

#include <memory>

#include <trireme/device/device.h>

namespace trireme {

Result<std::unique_ptr<Stream>> make_cuda_stream(int device);

}  // namespace trireme
