// The functions of the CUDA driver, loaded at run time: one binary works on machines with
// and without it. Types and versions of the functions are those of the header we are
// compiled with.
// Thread safety: values; the functions are as thread-safe as the driver.
#pragma once

#include <cuda.h>

#include <string_view>

#include <trireme/base/status.h>

namespace trireme {

struct CudaIpcDriver {
  decltype(&cuInit) init = nullptr;
  decltype(&cuGetErrorName) get_error_name = nullptr;
  decltype(&cuGetErrorString) get_error_string = nullptr;
  decltype(&cuDeviceGetCount) device_get_count = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetUuid) device_get_uuid = nullptr;
  decltype(&cuDeviceGetPCIBusId) device_get_pci_bus_id = nullptr;
  decltype(&cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&cuDeviceCanAccessPeer) device_can_access_peer = nullptr;
  decltype(&cuDevicePrimaryCtxGetState) primary_context_get_state = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) primary_context_retain = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) primary_context_release = nullptr;
  decltype(&cuCtxGetCurrent) context_get_current = nullptr;
  decltype(&cuCtxGetDevice) context_get_device = nullptr;
  decltype(&cuCtxPushCurrent) context_push = nullptr;
  decltype(&cuCtxPopCurrent) context_pop = nullptr;
  decltype(&cuPointerGetAttributes) pointer_get_attributes = nullptr;
  decltype(&cuMemGetAddressRange) mem_get_address_range = nullptr;
  decltype(&cuMemAlloc) mem_alloc = nullptr;
  decltype(&cuMemFree) mem_free = nullptr;
  decltype(&cuMemHostAlloc) mem_host_alloc = nullptr;
  decltype(&cuMemFreeHost) mem_free_host = nullptr;
  decltype(&cuMemcpyAsync) memcpy_async = nullptr;
  decltype(&cuStreamCreate) stream_create = nullptr;
  decltype(&cuStreamDestroy) stream_destroy = nullptr;
  decltype(&cuEventCreate) event_create = nullptr;
  decltype(&cuEventDestroy) event_destroy = nullptr;
  decltype(&cuEventRecord) event_record = nullptr;
  decltype(&cuEventQuery) event_query = nullptr;
  decltype(&cuLaunchHostFunc) launch_host_func = nullptr;
  decltype(&cuIpcGetMemHandle) ipc_get_mem_handle = nullptr;
  decltype(&cuIpcOpenMemHandle) ipc_open_mem_handle = nullptr;
  decltype(&cuIpcCloseMemHandle) ipc_close_mem_handle = nullptr;
  decltype(&cuMemCreate) mem_create = nullptr;
  decltype(&cuMemRelease) mem_release = nullptr;
  decltype(&cuMemRetainAllocationHandle) mem_retain_allocation_handle = nullptr;
  decltype(&cuMemExportToShareableHandle) mem_export_to_shareable_handle = nullptr;
  decltype(&cuMemImportFromShareableHandle) mem_import_from_shareable_handle = nullptr;
  decltype(&cuMemAddressReserve) mem_address_reserve = nullptr;
  decltype(&cuMemAddressFree) mem_address_free = nullptr;
  decltype(&cuMemMap) mem_map = nullptr;
  decltype(&cuMemUnmap) mem_unmap = nullptr;
  decltype(&cuMemSetAccess) mem_set_access = nullptr;

  // The machine's, loaded once. Errors: unavailable, saying what is missing.
  static Result<const CudaIpcDriver*> system();
  // Whether anything in this process has loaded the driver.
  static bool is_loaded();

  // ok for success; otherwise "what: CUDA_ERROR_X (text)".
  Status check(CUresult result, std::string_view what) const;
};

}  // namespace trireme
