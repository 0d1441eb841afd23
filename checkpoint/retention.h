// Deleting checkpoints that are no longer wanted.
#pragma once

#include <string>

#include <trireme/base/status.h>

namespace trireme {

// Deletes all but the `keep_last` newest commits (0 keeps all). A checkpoint is renamed to
// a temporary name first, so no half-deleted one bears a checkpoint's name. Folders whose
// manifest cannot be read are left for people to look at.
Status delete_old_checkpoints(const std::string& directory, int keep_last);

}  // namespace trireme
