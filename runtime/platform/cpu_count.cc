#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/platform/api/system.h"

namespace trireme {

std::vector<int> usable_cpus() {
  // The kernel refuses a mask smaller than its own: grow until it fits.
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    CPU_ZERO_S(bytes, set);
    std::vector<int> usable;
    if (::sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < cpus; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) usable.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (!usable.empty()) return usable;
  }
  return {};
}

int usable_cpu_count() {
  const std::vector<int> usable = usable_cpus();
  if (!usable.empty()) return static_cast<int>(usable.size());
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

Status bind_to_cpu(int ordinal) {
  const std::vector<int> usable = usable_cpus();
  if (usable.empty()) return unavailable("binding to a processor: the kernel does not say which ones may be used");
  const int cpu = usable[static_cast<std::size_t>(ordinal) % usable.size()];
  cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpu) + 1);
  if (set == nullptr) return resource_exhausted("binding to a processor: no memory for its mask");
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpu) + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  const bool bound = ::sched_setaffinity(0, bytes, set) == 0;
  const int error = errno;
  CPU_FREE(set);
  if (bound) return {};
  return errno_status(error, "binding to processor " + std::to_string(cpu));
}

}  // namespace trireme
