#include "runtime/rendezvous/fork_hold.h"

#include <pthread.h>

#include <new>

#include <trireme/base/check.h>

namespace trireme::store {
namespace {

// Of the whole process, as fork is.
constinit std::shared_mutex fork_mutex;

}  // namespace

void ForkHold::prepare() {
  // The child's is a new one in its place: threads may have waited for the old one, and
  // are no more.
  static const int result = ::pthread_atfork([] { fork_mutex.lock(); }, [] { fork_mutex.unlock(); },
                                             [] { new (&fork_mutex) std::shared_mutex; });
  TRIREME_CHECK(result == 0, "pthread_atfork has no memory");
}

ForkHold::ForkHold() : lock_(fork_mutex) {}

}  // namespace trireme::store
