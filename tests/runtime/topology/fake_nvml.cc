// A stand-in for NVML: four GPUs. 0 and 1 share an NVSwitch (18 links each); 2 and 3 are
// joined by 4 direct links. Only what our discovery calls is here.
#include <cstdio>
#include <cstring>

namespace {

struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
};
struct Memory {
  unsigned long long total, free, used;
};
int devices[4] = {0, 1, 2, 3};

int index_of(const void* device) {
  return *static_cast<const int*>(device);
}
void fill(Pci* pci, unsigned bus) {
  *pci = Pci{};
  pci->bus = bus;
  std::snprintf(pci->text, sizeof pci->text, "00000000:%02X:00.0", bus);
}
bool has_link(int gpu, unsigned link) {
  return gpu < 2 ? link < 18 : link < 4;
}

}  // namespace

extern "C" {
int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 4;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 4) return 2;
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
  fill(pci, 0x10u + static_cast<unsigned>(index_of(device)));
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::snprintf(name, length, "Stand-in GPU %d", index_of(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80ull << 30, 0, 0};
  return 0;
}
// GPUs 1 and 3 say what their slots can do.
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* generation) {
  if (index_of(device) % 2 == 0) return 3;
  *generation = 5;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* width) {
  if (index_of(device) % 2 == 0) return 3;
  *width = 16;
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  if (!has_link(index_of(device), link)) return 2;
  *active = 1;
  return 0;
}
int nvmlDeviceGetNvLinkVersion(void*, unsigned, unsigned* version) {
  *version = 4;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, Pci* pci) {
  const int gpu = index_of(device);
  fill(pci, gpu < 2 ? 0x05u : gpu == 2 ? 0x13u : 0x12u);
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned, unsigned* type) {
  *type = index_of(device) < 2 ? 2 : 0;
  return 0;
}
}
