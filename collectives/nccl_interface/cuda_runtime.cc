// The CUDA runtime among the program's global symbols: NVIDIA's, or a stand-in, of which
// only cudaGetDeviceCount, cudaGetDevice, cudaSetDevice, cudaStreamSynchronize and
// cudaMemcpyAsync must exist. Without cudaPointerGetAttributes all memory is host memory.
#include <dlfcn.h>

#include <cstring>
#include <new>

#include <fmt/core.h>

#include "collectives/nccl_interface/accelerator.h"

namespace trireme::nccl {
namespace {

using Error = int;                            // cudaError_t
constexpr int kMemcpyDefault = 4;             // cudaMemcpyDefault: the direction from the pointers.
constexpr int kMemoryTypeDevice = 2;          // cudaMemoryTypeDevice
constexpr int kCaptureStatusNone = 0;         // cudaStreamCaptureStatusNone
constexpr std::size_t kAttributeBytes = 256;  // cudaPointerAttributes grows with versions; its type is its first int.

struct Functions {
  Error (*get_device_count)(int*) = nullptr;
  Error (*get_device)(int*) = nullptr;
  Error (*set_device)(int) = nullptr;
  Error (*stream_synchronize)(void*) = nullptr;
  Error (*memcpy_async)(void*, const void*, std::size_t, int, void*) = nullptr;
  Error (*pointer_get_attributes)(void*, const void*) = nullptr;
  Error (*stream_is_capturing)(void*, int*) = nullptr;
  Error (*malloc_host)(void**, std::size_t) = nullptr;
  Error (*free_host)(void*) = nullptr;
  Error (*malloc_device)(void**, std::size_t) = nullptr;
  Error (*free_device)(void*) = nullptr;
  Error (*get_last_error)() = nullptr;
  const char* (*get_error_string)(Error) = nullptr;
};

template <typename Function>
bool find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

bool find_all(Functions& functions) {
  const bool needed = find("cudaGetDeviceCount", functions.get_device_count) &&
                      find("cudaGetDevice", functions.get_device) && find("cudaSetDevice", functions.set_device) &&
                      find("cudaStreamSynchronize", functions.stream_synchronize) &&
                      find("cudaMemcpyAsync", functions.memcpy_async);
  if (!needed) return false;
  find("cudaPointerGetAttributes", functions.pointer_get_attributes);
  find("cudaStreamIsCapturing", functions.stream_is_capturing);
  find("cudaMalloc", functions.malloc_device);
  find("cudaFree", functions.free_device);
  find("cudaGetLastError", functions.get_last_error);
  find("cudaGetErrorString", functions.get_error_string);
  if (!find("cudaMallocHost", functions.malloc_host) || !find("cudaFreeHost", functions.free_host)) {
    functions.malloc_host = nullptr;
  }
  return true;
}

class CudaRuntime final : public Accelerator {
 public:
  explicit CudaRuntime(const Functions& functions) : f_(functions) {}

  Place current() override {
    Place place;
    if (f_.get_device(&place.device) != 0) forget();
    return place;
  }
  Result<Place> place_of(int device) override {
    int devices = 0;
    TRIREME_RETURN_IF_ERROR(check(f_.get_device_count(&devices), "cudaGetDeviceCount"));
    if (device < 0 || device >= devices) {
      return invalid_argument(fmt::format("there is no device {}: expected 0 to {}", device, devices - 1));
    }
    return Place{device, nullptr};
  }
  Place enter(const Place& place) override {
    const Place before = current();
    if (place.device != before.device && f_.set_device(place.device) != 0) forget();
    return before;
  }
  void leave(const Place& before) override { (void)enter(before); }

  bool is_device_memory(const void* pointer) override {
    if (f_.pointer_get_attributes == nullptr) return false;
    alignas(16) char attributes[kAttributeBytes] = {};
    if (f_.pointer_get_attributes(attributes, pointer) != 0) {
      forget();
      return false;
    }
    int type = 0;
    std::memcpy(&type, attributes, sizeof type);
    return type == kMemoryTypeDevice;
  }
  bool is_capturing(void* stream) override {
    int status = kCaptureStatusNone;
    if (f_.stream_is_capturing == nullptr || f_.stream_is_capturing(stream, &status) != 0) return false;
    return status != kCaptureStatusNone;
  }
  Status synchronize(void* stream) override { return check(f_.stream_synchronize(stream), "cudaStreamSynchronize"); }
  Status copy(void* destination, const void* source, std::size_t bytes, void* stream) override {
    return check(f_.memcpy_async(destination, source, bytes, kMemcpyDefault, stream), "cudaMemcpyAsync");
  }

  Result<void*> allocate_host(std::size_t bytes) override {
    void* memory = nullptr;
    if (f_.malloc_host != nullptr) {
      TRIREME_RETURN_IF_ERROR(check(f_.malloc_host(&memory, bytes), "cudaMallocHost"));
      return memory;
    }
    memory = ::operator new(bytes, std::nothrow);
    if (memory != nullptr) return memory;
    return resource_exhausted(fmt::format("{} bytes of host memory to stage device memory in", bytes));
  }
  void deallocate_host(void* memory) override {
    if (f_.malloc_host == nullptr) return ::operator delete(memory);
    if (f_.free_host(memory) != 0) forget();
  }
  Result<void*> allocate(std::size_t bytes) override {
    if (f_.malloc_device == nullptr) return unavailable("the CUDA runtime of this process has no cudaMalloc");
    void* memory = nullptr;
    TRIREME_RETURN_IF_ERROR(check(f_.malloc_device(&memory, bytes), "cudaMalloc"));
    return memory;
  }
  Status deallocate(void* memory) override {
    if (f_.free_device == nullptr) return unavailable("the CUDA runtime of this process has no cudaFree");
    return check(f_.free_device(memory), "cudaFree");
  }

 private:
  // What we asked in vain is not the program's error to find.
  void forget() {
    if (f_.get_last_error != nullptr) (void)f_.get_last_error();
  }
  Status check(Error error, const char* call) {
    if (error == 0) return {};
    const char* text = f_.get_error_string != nullptr ? f_.get_error_string(error) : "no text";
    return io_error(fmt::format("{} failed: CUDA error {} ({})", call, error, text));
  }

  const Functions f_;
};

}  // namespace

std::unique_ptr<Accelerator> find_cuda_runtime() {
  Functions functions;
  if (!find_all(functions)) return nullptr;
  int devices = 0;
  if (functions.get_device_count(&devices) != 0 || devices == 0) {
    if (functions.get_last_error != nullptr) (void)functions.get_last_error();
    return nullptr;
  }
  return std::make_unique<CudaRuntime>(functions);
}

}  // namespace trireme::nccl
