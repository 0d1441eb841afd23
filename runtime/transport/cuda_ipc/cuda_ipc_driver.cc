#include "runtime/transport/cuda_ipc/cuda_ipc_driver.h"

#include <dlfcn.h>

#include <string>

#include <fmt/core.h>

// The header maps names to their newest versions by macros: a name is expanded first, then quoted.
#define TRIREME_QUOTED(name) #name
#define TRIREME_SYMBOL(name) TRIREME_QUOTED(name)

namespace trireme {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

class Loader {
 public:
  explicit Loader(void* library) : library_(library) {}
  template <typename Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (function == nullptr) missing_ += missing_.empty() ? symbol : std::string(", ") + symbol;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void find_devices(Loader& loader, CudaIpcDriver& driver) {
  loader.find(driver.init, TRIREME_SYMBOL(cuInit));
  loader.find(driver.get_error_name, TRIREME_SYMBOL(cuGetErrorName));
  loader.find(driver.get_error_string, TRIREME_SYMBOL(cuGetErrorString));
  loader.find(driver.device_get_count, TRIREME_SYMBOL(cuDeviceGetCount));
  loader.find(driver.device_get, TRIREME_SYMBOL(cuDeviceGet));
  loader.find(driver.device_get_uuid, TRIREME_SYMBOL(cuDeviceGetUuid));
  loader.find(driver.device_get_pci_bus_id, TRIREME_SYMBOL(cuDeviceGetPCIBusId));
  loader.find(driver.device_get_attribute, TRIREME_SYMBOL(cuDeviceGetAttribute));
  loader.find(driver.device_can_access_peer, TRIREME_SYMBOL(cuDeviceCanAccessPeer));
  loader.find(driver.primary_context_get_state, TRIREME_SYMBOL(cuDevicePrimaryCtxGetState));
  loader.find(driver.primary_context_retain, TRIREME_SYMBOL(cuDevicePrimaryCtxRetain));
  loader.find(driver.primary_context_release, TRIREME_SYMBOL(cuDevicePrimaryCtxRelease));
  loader.find(driver.context_get_current, TRIREME_SYMBOL(cuCtxGetCurrent));
  loader.find(driver.context_get_device, TRIREME_SYMBOL(cuCtxGetDevice));
  loader.find(driver.context_push, TRIREME_SYMBOL(cuCtxPushCurrent));
  loader.find(driver.context_pop, TRIREME_SYMBOL(cuCtxPopCurrent));
}

void find_copies(Loader& loader, CudaIpcDriver& driver) {
  loader.find(driver.pointer_get_attributes, TRIREME_SYMBOL(cuPointerGetAttributes));
  loader.find(driver.mem_get_address_range, TRIREME_SYMBOL(cuMemGetAddressRange));
  loader.find(driver.mem_alloc, TRIREME_SYMBOL(cuMemAlloc));
  loader.find(driver.mem_free, TRIREME_SYMBOL(cuMemFree));
  loader.find(driver.mem_host_alloc, TRIREME_SYMBOL(cuMemHostAlloc));
  loader.find(driver.mem_free_host, TRIREME_SYMBOL(cuMemFreeHost));
  loader.find(driver.memcpy_async, TRIREME_SYMBOL(cuMemcpyAsync));
  loader.find(driver.stream_create, TRIREME_SYMBOL(cuStreamCreate));
  loader.find(driver.stream_destroy, TRIREME_SYMBOL(cuStreamDestroy));
  loader.find(driver.event_create, TRIREME_SYMBOL(cuEventCreate));
  loader.find(driver.event_destroy, TRIREME_SYMBOL(cuEventDestroy));
  loader.find(driver.event_record, TRIREME_SYMBOL(cuEventRecord));
  loader.find(driver.event_query, TRIREME_SYMBOL(cuEventQuery));
  loader.find(driver.launch_host_func, TRIREME_SYMBOL(cuLaunchHostFunc));
}

void find_sharing(Loader& loader, CudaIpcDriver& driver) {
  loader.find(driver.ipc_get_mem_handle, TRIREME_SYMBOL(cuIpcGetMemHandle));
  loader.find(driver.ipc_open_mem_handle, TRIREME_SYMBOL(cuIpcOpenMemHandle));
  loader.find(driver.ipc_close_mem_handle, TRIREME_SYMBOL(cuIpcCloseMemHandle));
  loader.find(driver.mem_create, TRIREME_SYMBOL(cuMemCreate));
  loader.find(driver.mem_release, TRIREME_SYMBOL(cuMemRelease));
  loader.find(driver.mem_retain_allocation_handle, TRIREME_SYMBOL(cuMemRetainAllocationHandle));
  loader.find(driver.mem_export_to_shareable_handle, TRIREME_SYMBOL(cuMemExportToShareableHandle));
  loader.find(driver.mem_import_from_shareable_handle, TRIREME_SYMBOL(cuMemImportFromShareableHandle));
  loader.find(driver.mem_address_reserve, TRIREME_SYMBOL(cuMemAddressReserve));
  loader.find(driver.mem_address_free, TRIREME_SYMBOL(cuMemAddressFree));
  loader.find(driver.mem_map, TRIREME_SYMBOL(cuMemMap));
  loader.find(driver.mem_unmap, TRIREME_SYMBOL(cuMemUnmap));
  loader.find(driver.mem_set_access, TRIREME_SYMBOL(cuMemSetAccess));
}

Result<CudaIpcDriver> load() {
  // Stays loaded: drivers' libraries do not survive being unloaded.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return unavailable(fmt::format("no CUDA driver: {}", why != nullptr ? why : kLibrary));
  }
  CudaIpcDriver driver;
  Loader loader(library);
  find_devices(loader, driver);
  find_copies(loader, driver);
  find_sharing(loader, driver);
  if (loader.missing().empty()) return driver;
  return unavailable(fmt::format("{} has no {}: install the driver that CUDA {}.{} asks for, or a newer one", kLibrary,
                                 loader.missing(), CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10));
}

}  // namespace

Result<const CudaIpcDriver*> CudaIpcDriver::system() {
  static const Result<CudaIpcDriver> loaded = load();
  if (!loaded.is_ok()) return loaded.status();
  return &loaded.value();
}

bool CudaIpcDriver::is_loaded() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

Status CudaIpcDriver::check(CUresult result, std::string_view what) const {
  if (result == CUDA_SUCCESS) return Status::ok();
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr) name = "a CUDA error this driver cannot name";
  if (get_error_string(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no text";
  const std::string message = fmt::format("{}: {} ({})", what, name, text);
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return resource_exhausted(message);
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return unavailable(message);
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
      return unsupported(message);
    default:
      return io_error(message);
  }
}

}  // namespace trireme
