// Agreement: the two moves by which the ranks of a save or load agree, over the World's
// control plane and never over a training communicator: gather values at rank 0, and
// announce rank 0's decision to all.
// Thread safety: any thread; a name is used once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>
#include <trireme/rendezvous/world.h>

namespace trireme {

class Agreement {
 public:
  // `scope` distinguishes this object's names from all others' in the world; it is the
  // same on all ranks.
  Agreement(std::shared_ptr<World> world, std::string scope) : world_(std::move(world)), scope_(std::move(scope)) {}

  // On rank 0 every rank's value, by rank; elsewhere nothing. Values travel in pairs with
  // rank 0, so their bytes pass the store once. Errors: those of World::exchange.
  Result<std::vector<std::string>> gather(const std::string& name, std::string_view value, Deadline deadline);
  // Rank 0's value, on every rank; the others' is ignored.
  Result<std::string> announce(const std::string& name, std::string_view value, Deadline deadline);

  World& world() const { return *world_; }
  bool is_root() const { return world_->rank() == 0; }

 private:
  std::shared_ptr<World> world_;
  std::string scope_;
};

}  // namespace trireme
