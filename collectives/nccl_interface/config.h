// Settings: what an ncclConfig_t of any version asks for.
//
// The structure has grown with NCCL's versions by adding members at its end; `size` says
// where the caller's ends. Members past it are undefined, members past ours are left
// unread. What steers GPU kernels (CTAs, clusters, NVLS, CollNet, channels, scheduling) is
// checked and then without effect: there are no kernels here.
#pragma once

#include <string>

#include "collectives/nccl_interface/outcome.h"

namespace trireme::nccl {

struct Settings {
  bool blocking = true;
  std::string name;  // commName, for messages; may be "".
};

// `config` may be null: the defaults, or those of `parent` when there is one.
// Errors: invalid_argument for a structure that no initializer has touched or a value out
// of its range, naming the member; invalid_usage for a network we do not have.
Outcome read_config(const Config* config, const Settings* parent, Settings& settings);

}  // namespace trireme::nccl
