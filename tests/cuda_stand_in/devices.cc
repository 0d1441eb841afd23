// Devices, contexts and errors.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda_stand_in/stand_in.h"

namespace trireme::stand_in {
namespace {

constexpr int kMostGpus = 8;

struct Context {
  int gpu = 0;
  int users = 0;
};

struct Contexts {
  std::mutex mutex;
  Context of[kMostGpus];
  Contexts() {
    for (int gpu = 0; gpu < kMostGpus; ++gpu) of[gpu].gpu = gpu;
  }
};
Contexts& contexts() {
  static Contexts& all = *new Contexts;
  return all;
}

std::vector<CUcontext>& stack() {
  static thread_local std::vector<CUcontext> of_thread;
  return of_thread;
}

Context* context_of(CUcontext handle) {
  return reinterpret_cast<Context*>(handle);
}

}  // namespace

bool has_fault(std::string_view name) {
  const char* set = std::getenv("TRIREME_STAND_IN_FAULTS");
  if (set == nullptr) return false;
  const std::string all = "," + std::string(set) + ",";
  return all.find("," + std::string(name) + ",") != std::string::npos;
}

int gpu_count() {
  const char* set = std::getenv("TRIREME_STAND_IN_GPUS");
  const int count = set != nullptr ? std::atoi(set) : 2;
  return count < 0 ? 0 : count > kMostGpus ? kMostGpus : count;
}

int current_gpu() {
  return stack().empty() || stack().back() == nullptr ? -1 : context_of(stack().back())->gpu;
}

}  // namespace trireme::stand_in

using namespace trireme::stand_in;

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return gpu_count() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
          : error == CUDA_ERROR_NOT_SUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED"
          : error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
                                              : "CUDA_ERROR_OF_THE_STAND_IN";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the stand-in";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = gpu_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= gpu_count()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  char text[17];
  std::snprintf(text, sizeof text, "stand-in GPU %3d", device);
  std::memcpy(uuid->bytes, text, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0x1a + device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) {
    *value = 1'000'000;
  } else if (attribute == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) {
    *value = 1024;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* possible, CUdevice device, CUdevice peer) {
  *possible = device != peer && !has_fault("no_peer") ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  const std::lock_guard lock(contexts().mutex);
  *flags = 0;
  *active = contexts().of[device].users > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const std::lock_guard lock(contexts().mutex);
  Context& own = contexts().of[device];
  ++own.users;
  *context = reinterpret_cast<CUcontext>(&own);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const std::lock_guard lock(contexts().mutex);
  if (contexts().of[device].users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --contexts().of[device].users;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = stack().empty() ? nullptr : stack().back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (current_gpu() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current_gpu();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack().back();
  stack().pop_back();
  return CUDA_SUCCESS;
}
