#include "runtime/platform/api/fault.h"

#include <atomic>
#include <memory>
#include <mutex>

#include <trireme/base/check.h>

namespace trireme {
namespace {

using Injector = std::function<int(std::string_view)>;

// The one process-wide state of this file: a test's injector, when there is one.
std::atomic<bool> installed{false};
std::mutex mutex;
std::shared_ptr<const Injector> current;

}  // namespace

int inject_fault(std::string_view site) {
  if (!installed.load(std::memory_order_relaxed)) return 0;
  std::shared_ptr<const Injector> injector;
  {
    const std::lock_guard lock(mutex);
    injector = current;
  }
  return injector ? (*injector)(site) : 0;
}

ScopedFaultInjector::ScopedFaultInjector(Injector injector) {
  const std::lock_guard lock(mutex);
  TRIREME_CHECK(current == nullptr, "only one fault injector may be installed at a time");
  current = std::make_shared<const Injector>(std::move(injector));
  installed.store(true, std::memory_order_relaxed);
}

ScopedFaultInjector::~ScopedFaultInjector() {
  const std::lock_guard lock(mutex);
  installed.store(false, std::memory_order_relaxed);
  current.reset();
}

}  // namespace trireme
