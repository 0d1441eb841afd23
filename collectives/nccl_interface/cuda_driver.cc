// The CUDA driver that something in the process has loaded, for programs whose runtime
// is linked statically and has no global symbols. Runtime and driver share streams,
// memory and (primary) contexts.
#include <dlfcn.h>

#include <cstdint>

#include <fmt/core.h>

#include "collectives/nccl_interface/accelerator.h"

namespace trireme::nccl {
namespace {

using Error = int;                         // CUresult
constexpr int kAttributeMemoryType = 2;    // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kAttributeIsManaged = 8;     // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr unsigned kMemoryTypeDevice = 2;  // CU_MEMORYTYPE_DEVICE
constexpr unsigned kHostPortable = 1;      // CU_MEMHOSTALLOC_PORTABLE
using DevicePointer = unsigned long long;  // CUdeviceptr

struct Functions {
  Error (*device_get_count)(int*) = nullptr;
  Error (*device_get)(int*, int) = nullptr;
  Error (*primary_context_retain)(void**, int) = nullptr;
  Error (*context_get_current)(void**) = nullptr;
  Error (*context_set_current)(void*) = nullptr;
  Error (*context_get_device)(int*) = nullptr;
  Error (*pointer_get_attribute)(void*, int, DevicePointer) = nullptr;
  Error (*stream_is_capturing)(void*, int*) = nullptr;
  Error (*stream_synchronize)(void*) = nullptr;
  Error (*memcpy_async)(DevicePointer, DevicePointer, std::size_t, void*) = nullptr;
  Error (*host_alloc)(void**, std::size_t, unsigned) = nullptr;
  Error (*host_free)(void*) = nullptr;
  Error (*device_alloc)(DevicePointer*, std::size_t) = nullptr;
  Error (*device_free)(DevicePointer) = nullptr;
  Error (*get_error_string)(Error, const char**) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& f) {
  return find(library, "cuDeviceGetCount", f.device_get_count) && find(library, "cuDeviceGet", f.device_get) &&
         find(library, "cuDevicePrimaryCtxRetain", f.primary_context_retain) &&
         find(library, "cuCtxGetCurrent", f.context_get_current) &&
         find(library, "cuCtxSetCurrent", f.context_set_current) &&
         find(library, "cuCtxGetDevice", f.context_get_device) &&
         find(library, "cuPointerGetAttribute", f.pointer_get_attribute) &&
         find(library, "cuStreamIsCapturing", f.stream_is_capturing) &&
         find(library, "cuStreamSynchronize", f.stream_synchronize) && find(library, "cuMemcpyAsync", f.memcpy_async) &&
         find(library, "cuMemHostAlloc", f.host_alloc) && find(library, "cuMemFreeHost", f.host_free) &&
         find(library, "cuMemAlloc_v2", f.device_alloc) && find(library, "cuMemFree_v2", f.device_free) &&
         find(library, "cuGetErrorString", f.get_error_string);
}

DevicePointer address(const void* pointer) {
  return static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(pointer));
}

class CudaDriver final : public Accelerator {
 public:
  explicit CudaDriver(const Functions& functions) : f_(functions) {}

  Place current() override {
    Place place;
    if (f_.context_get_current(&place.context) != 0 || place.context == nullptr) return {};
    if (f_.context_get_device(&place.device) != 0) place.device = 0;
    return place;
  }
  Result<Place> place_of(int device) override {
    int handle = 0;
    TRIREME_RETURN_IF_ERROR(check(f_.device_get(&handle, device), "cuDeviceGet"));
    Place place{device, nullptr};
    TRIREME_RETURN_IF_ERROR(check(f_.primary_context_retain(&place.context, handle), "cuDevicePrimaryCtxRetain"));
    return place;
  }
  Place enter(const Place& place) override {
    const Place before = current();
    if (place.context != nullptr) (void)f_.context_set_current(place.context);
    return before;
  }
  void leave(const Place& before) override { (void)f_.context_set_current(before.context); }

  bool is_device_memory(const void* pointer) override {
    unsigned type = 0;
    if (f_.pointer_get_attribute(&type, kAttributeMemoryType, address(pointer)) != 0) return false;
    unsigned managed = 0;
    if (f_.pointer_get_attribute(&managed, kAttributeIsManaged, address(pointer)) != 0) managed = 0;
    return type == kMemoryTypeDevice && managed == 0;
  }
  bool is_capturing(void* stream) override {
    int status = 0;
    return f_.stream_is_capturing(stream, &status) == 0 && status != 0;
  }
  Status synchronize(void* stream) override { return check(f_.stream_synchronize(stream), "cuStreamSynchronize"); }
  Status copy(void* destination, const void* source, std::size_t bytes, void* stream) override {
    return check(f_.memcpy_async(address(destination), address(source), bytes, stream), "cuMemcpyAsync");
  }
  Result<void*> allocate_host(std::size_t bytes) override {
    void* memory = nullptr;
    TRIREME_RETURN_IF_ERROR(check(f_.host_alloc(&memory, bytes, kHostPortable), "cuMemHostAlloc"));
    return memory;
  }
  void deallocate_host(void* memory) override { (void)f_.host_free(memory); }
  Result<void*> allocate(std::size_t bytes) override {
    DevicePointer memory = 0;
    TRIREME_RETURN_IF_ERROR(check(f_.device_alloc(&memory, bytes), "cuMemAlloc"));
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
  }
  Status deallocate(void* memory) override { return check(f_.device_free(address(memory)), "cuMemFree"); }

 private:
  Status check(Error error, const char* call) {
    if (error == 0) return {};
    const char* text = nullptr;
    if (f_.get_error_string(error, &text) != 0 || text == nullptr) text = "no text";
    return io_error(fmt::format("{} failed: CUDA error {} ({})", call, error, text));
  }

  const Functions f_;
};

}  // namespace

std::unique_ptr<Accelerator> find_cuda_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  Functions functions;
  int devices = 0;
  const bool usable = find_all(library, functions) && functions.device_get_count(&devices) == 0 && devices > 0;
  if (usable) return std::make_unique<CudaDriver>(functions);  // Keeps the library loaded.
  ::dlclose(library);
  return nullptr;
}

}  // namespace trireme::nccl
