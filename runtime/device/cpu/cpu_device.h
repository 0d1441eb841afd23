// The CPU as a device: ordinary memory, streams that are threads.
#pragma once

#include <memory>

#include <trireme/device/device.h>

namespace trireme {

std::shared_ptr<Device> make_cpu_device();

// A stream is one thread that drains a queue in order. Its destructor runs what is
// still queued first; work that waits for an event nobody completes would hold it.
Result<std::unique_ptr<Stream>> make_cpu_stream();

}  // namespace trireme
