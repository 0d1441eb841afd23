// ForkHold: while a thread has one, fork(2) of another thread waits, so that the child is
// not born with locks that nobody will ever release (those of OpenSSL above all, whose
// child of a fork would wait for ever at its first handshake).
//
// For threads of ours that work in short turns, around each turn. A turn must not call
// fork(2) itself; ChildProcess::spawn may be called: it does not.
// Thread safety: any number of threads at once.
#pragma once

#include <shared_mutex>

namespace trireme::store {

class ForkHold {
 public:
  // Before the first thread that holds is started.
  static void prepare();
  ForkHold();
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace trireme::store
