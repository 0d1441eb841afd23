#include "runtime/transport/verbs/verbs_ports.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include <trireme/platform/environment.h>

#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr int kFar = 1000;
const std::string kRdmaClass = "/sys/class/infiniband/";
const std::string kPciDevices = "/sys/bus/pci/devices/";

std::string resolved(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? std::string() : real.string();
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool parse_number(std::string_view text, int& number) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// NVIDIA display and 3D controllers in PCI order, which is CUDA's with
// CUDA_DEVICE_ORDER=PCI_BUS_ID and usually also without.
std::vector<std::string> gpu_pci_paths() {
  std::vector<std::string> paths;
  const auto devices = list_directory(kPciDevices);
  if (!devices.is_ok()) return paths;
  std::vector<std::string> names = *devices;
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const auto vendor = read_file(kPciDevices + name + "/vendor");
    const auto kind = read_file(kPciDevices + name + "/class");
    if (!vendor.is_ok() || !kind.is_ok()) continue;
    if (vendor->starts_with("0x10de") && kind->starts_with("0x03")) paths.push_back(resolved(kPciDevices + name));
  }
  return paths;
}

}  // namespace

std::vector<int> parse_core_list(std::string_view text) {
  std::vector<int> cores;
  for (std::string_view part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    int first = 0;
    int last = 0;
    if (!parse_number(part.substr(0, dash), first)) continue;
    last = first;
    if (dash != std::string_view::npos && !parse_number(part.substr(dash + 1), last)) continue;
    for (int core = first; core <= last && last - first < 65536; ++core) cores.push_back(core);
  }
  return cores;
}

int verbs_distance(const VerbsPlace& device, const VerbsRankPlace& rank) {
  const bool near = device.cores.empty() || std::any_of(rank.cores.begin(), rank.cores.end(), [&](int core) {
                      return std::find(device.cores.begin(), device.cores.end(), core) != device.cores.end();
                    });
  if (rank.gpu_pci_path.empty()) return near ? 0 : 1;
  const std::optional<int> steps = pci_steps(device.pci_path, rank.gpu_pci_path);
  return (steps ? *steps : kFar) * 2 + (near ? 0 : 1);
}

std::vector<VerbsPortInfo> order_verbs_ports(std::vector<VerbsCandidate> candidates, const VerbsRankPlace& rank) {
  const bool hardware =
      std::any_of(candidates.begin(), candidates.end(), [](const auto& c) { return !c.info.software; });
  double fastest = 0;
  for (const VerbsCandidate& candidate : candidates) fastest = std::max(fastest, candidate.info.bytes_per_second);
  // A management port beside the real ones would only slow a channel down.
  std::erase_if(candidates, [&](const VerbsCandidate& candidate) {
    return (hardware && candidate.info.software) || candidate.info.bytes_per_second * 4 < fastest;
  });
  const auto distance = [&](const VerbsCandidate& candidate) { return verbs_distance(candidate.place, rank); };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  std::vector<VerbsPortInfo> ports;
  if (candidates.empty()) return ports;
  const auto equal_end = std::find_if(candidates.begin(), candidates.end(), [&](const auto& candidate) {
    return distance(candidate) != distance(candidates.front());
  });
  const auto equals = static_cast<std::size_t>(equal_end - candidates.begin());
  // Ports farther away than the nearest ones share no load: crossing the host costs more.
  for (std::size_t i = 0; i < equals; ++i) {
    ports.push_back(candidates[(i + static_cast<std::size_t>(rank.local_rank)) % equals].info);
  }
  return ports;
}

Result<bool> verbs_filter_admits(std::string_view filter, std::string_view device, int port) {
  bool only_exclusions = true;
  bool admitted = false;
  for (std::string_view part : split(filter, ',')) {
    const bool excludes = part.starts_with('!');
    if (excludes) part.remove_prefix(1);
    const std::size_t colon = part.find(':');
    int wanted_port = port;
    if (part.empty() || (colon != std::string_view::npos && !parse_number(part.substr(colon + 1), wanted_port))) {
      return invalid_argument("TRIREME_VERBS_DEVICES=" + std::string(filter) +
                              ": expected device names with commas between, like mlx5_0,mlx5_1:1 or !mlx5_2");
    }
    const bool matches = part.substr(0, colon) == device && wanted_port == port;
    if (excludes && matches) return false;
    if (!excludes) only_exclusions = false;
    admitted = admitted || (!excludes && matches);
  }
  return admitted || only_exclusions;
}

VerbsPlace find_verbs_place(const std::string& device) {
  VerbsPlace place;
  place.pci_path = resolved(kRdmaClass + device + "/device");
  if (place.pci_path.find("/pci") == std::string::npos) place.pci_path.clear();
  const auto cores = read_file(kRdmaClass + device + "/device/local_cpulist");
  if (cores.is_ok()) place.cores = parse_core_list(*cores);
  return place;
}

VerbsRankPlace find_rank_place(int local_rank) {
  VerbsRankPlace place;
  place.local_rank = local_rank;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) place.cores.push_back(core);
    }
  }
  const std::vector<std::string> gpus = gpu_pci_paths();
  if (gpus.empty()) return place;
  auto index = static_cast<std::size_t>(local_rank);
  const std::string visible = environment("CUDA_VISIBLE_DEVICES").value_or("");
  const std::vector<std::string_view> listed = split(visible, ',');
  int number = 0;
  if (!listed.empty() && parse_number(listed[index % listed.size()], number)) index = static_cast<std::size_t>(number);
  place.gpu_pci_path = gpus[index % gpus.size()];
  return place;
}

}  // namespace trireme
