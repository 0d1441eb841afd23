// What a World needs from the store: over the network (store_client), or within the
// process for a world of one rank (local_store). The methods are World's, see there.
// Thread safety: all methods.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>

namespace trireme::store {

class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual Status put(std::string_view key, std::string_view value) = 0;
  virtual Result<std::string> get(std::string_view key, Deadline deadline) = 0;
  virtual Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;
  virtual Result<std::vector<std::string>> exchange(std::string_view name, const std::vector<int>& members,
                                                    std::string_view value, Deadline deadline) = 0;
  virtual Result<std::vector<int>> agree_on_survivors(std::string_view name, const std::vector<int>& members,
                                                      Deadline deadline) = 0;
  virtual void report_failure(const Failure& failure) = 0;
  virtual std::vector<std::optional<std::string>> collect_activities(Deadline deadline) = 0;
  virtual void notify_launcher(std::string_view topic, std::string_view value) = 0;
};

}  // namespace trireme::store
