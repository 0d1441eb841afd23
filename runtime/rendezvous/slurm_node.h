// Where a node of Slurm is reached when its name is not a host name: Slurm lets a site
// give a node an address of its own (NodeAddr in slurm.conf), which only its controller
// knows. It is asked through scontrol, and only when the name cannot be resolved.
// Thread safety: all functions.
#pragma once

#include <string>
#include <string_view>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

namespace trireme::store {

// The value of NodeAddr in what `scontrol --oneliner show node NAME` printed; "" without one.
std::string node_address_in(std::string_view description);

// The host under which Slurm's node `name` can be connected to: `name` itself when it can
// be resolved, else what scontrol says. Errors: not_found with both reasons.
Result<std::string> reachable_host_of_node(const std::string& name, Deadline deadline);

}  // namespace trireme::store
