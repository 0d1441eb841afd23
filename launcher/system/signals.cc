#include "launcher/system/signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace trireme {
namespace {

sigset_t set_of(const std::vector<int>& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

}  // namespace

void block_signals(const std::vector<int>& signals) {
  const sigset_t set = set_of(signals);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<SignalReceiver> SignalReceiver::create(const std::vector<int>& signals, const std::vector<int>& keep_ignored) {
  block_signals(signals);
  for (const int signal : signals) {
    // An ignored signal is never queued, and shells ignore SIGINT for background jobs.
    const bool keep = std::find(keep_ignored.begin(), keep_ignored.end(), signal) != keep_ignored.end();
    if (!keep) ::signal(signal, SIG_DFL);
  }
  const sigset_t set = set_of(signals);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return errno_status(errno, "receive signals by a descriptor");
  return SignalReceiver(std::move(fd));
}

std::vector<int> SignalReceiver::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

}  // namespace trireme
