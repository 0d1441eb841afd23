// Accelerator: the CUDA of the process, if it has one, found at run time.
//
// Nothing of CUDA is linked or loaded here. If the program has a CUDA runtime among its
// global symbols (linked as a shared library, or a stand-in of its own), that one is
// used; else the driver, if something in the process has loaded libcuda.so.1 (a program
// with a static runtime); else there is no accelerator, every pointer is host memory and
// streams mean nothing.
//
// Data in device memory is staged: it is copied to pinned host memory in the order of
// its stream, reduced and moved by Trireme on the host, and copied back in the order of
// the stream. The calls return when that is done, so whatever the program enqueues
// afterwards comes later too.
// Thread safety: all methods.
#pragma once

#include <cstddef>
#include <memory>

#include <trireme/base/status.h>

namespace trireme::nccl {

// The device a communicator was made on: what cudaSetDevice or a context is for.
struct Place {
  int device = 0;
  void* context = nullptr;  // Of the driver's kind only.
};

class Accelerator {
 public:
  virtual ~Accelerator() = default;
  // That of the calling thread.
  virtual Place current() = 0;
  // Of one of the devices. Errors: what CUDA says.
  virtual Result<Place> place_of(int device) = 0;
  // Makes `place` the calling thread's; returns what was before.
  virtual Place enter(const Place& place) = 0;
  virtual void leave(const Place& before) = 0;
  // False for host memory, pinned or not, and for pointers it does not know.
  virtual bool is_device_memory(const void* pointer) = 0;
  // Whether the stream is being captured into a graph, so that nothing may be awaited.
  virtual bool is_capturing(void* stream) = 0;
  virtual Status synchronize(void* stream) = 0;
  // Enqueues on the stream; either side may be on the host.
  virtual Status copy(void* destination, const void* source, std::size_t bytes, void* stream) = 0;
  virtual Result<void*> allocate_host(std::size_t bytes) = 0;
  virtual void deallocate_host(void* memory) = 0;
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual Status deallocate(void* memory) = 0;
};

// Null when this process has no CUDA with a device. Looks again until one is found, since
// programs may load it late; then stays with it.
Accelerator* accelerator();

// One each; null when not in this process or without a device.
std::unique_ptr<Accelerator> find_cuda_runtime();
std::unique_ptr<Accelerator> find_cuda_driver();

// The calling thread's place for as long as this lives. A null accelerator is legal.
class ScopedPlace {
 public:
  ScopedPlace(Accelerator* accelerator, const Place& place) : accelerator_(accelerator) {
    if (accelerator_ != nullptr) before_ = accelerator_->enter(place);
  }
  ~ScopedPlace() {
    if (accelerator_ != nullptr) accelerator_->leave(before_);
  }
  ScopedPlace(const ScopedPlace&) = delete;
  ScopedPlace& operator=(const ScopedPlace&) = delete;

 private:
  Accelerator* accelerator_;
  Place before_;
};

}  // namespace trireme::nccl
