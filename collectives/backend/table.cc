// The backends there are: one line each.
#include <fmt/core.h>

#include "collectives/backend/backend.h"
#include "collectives/mpi/mpi_backend.h"
#include "collectives/nccl/nccl_backend.h"

namespace trireme {
namespace {

struct Row {
  const char* name;
  BackendResult (*make)(const std::shared_ptr<World>& world);  // Null: ours.
};

constexpr Row kBackends[] = {
    {"ours", nullptr},
    {"mpi", make_mpi_backend},
    {"nccl", make_nccl_backend},
};

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Row& row : kBackends) names.emplace_back(row.name);
  return names;
}

Status backend_refuses(const std::string& backend, const Call& call, const std::string& why) {
  return unsupported(fmt::format("{}: backend {} {}", describe(call), backend, why));
}

BackendResult make_backend(const std::string& name, const std::shared_ptr<World>& world) {
  std::string known;
  for (const Row& row : kBackends) {
    if (name == row.name && row.make == nullptr) return std::unique_ptr<BackendCommunicator>();
    if (name == row.name) {
      BackendResult made = row.make(world);
      if (!made.is_ok()) return made.status().with_context("backend " + name);
      return made;
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return invalid_argument(
      fmt::format("there is no backend \"{}\" (CommunicatorOptions::backend, TRIREME_BACKEND): "
                  "expected one of {}",
                  name, known));
}

}  // namespace trireme
