// What is known of the ways to each peer: how it was reached, and by which address its
// host, which is then tried first, alone, for every rank there.
// Thread safety: all methods.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace trireme {

class ReachedPeers {
 public:
  void note(int rank, const std::string& scope, const std::string& host, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!host.empty()) hosts_[scope] = host;
    texts_[rank] = text;
  }
  // The address by which a rank of that network was reached; "" when none was yet.
  std::string host(const std::string& scope) const {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(scope);
    return found == hosts_.end() ? std::string() : found->second;
  }
  // "" when nothing is known yet.
  std::string text(int rank) const {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(rank);
    return found == texts_.end() ? std::string() : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> hosts_;  // By network scope.
  std::map<int, std::string> texts_;
};

}  // namespace trireme
