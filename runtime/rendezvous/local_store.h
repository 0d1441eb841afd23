// The control plane of a world of one rank: a map, no socket, no thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/rendezvous/control_plane.h"
#include "runtime/rendezvous/failure_board.h"

namespace trireme::store {

class LocalStore final : public ControlPlane {
 public:
  explicit LocalStore(std::shared_ptr<WorldSignals> signals) : signals_(std::move(signals)) {}
  Status put(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override;
  Result<std::vector<std::string>> exchange(std::string_view name, const std::vector<int>& members,
                                            std::string_view value, Deadline deadline) override;
  Result<std::vector<int>> agree_on_survivors(std::string_view name, const std::vector<int>& members,
                                              Deadline deadline) override;
  void report_failure(const Failure& failure) override;
  std::vector<std::optional<std::string>> collect_activities(Deadline deadline) override;
  void notify_launcher(std::string_view, std::string_view) override {}

 private:
  const std::shared_ptr<WorldSignals> signals_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::int64_t> counters_;
};

}  // namespace trireme::store
