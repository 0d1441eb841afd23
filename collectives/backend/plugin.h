// Libraries that are loaded when they are asked for.
// Thread safety: free functions.
#pragma once

#include <string>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

// Where our own plug-ins may lie, best first: TRIREME_BACKEND_FOLDER, then lib/trireme
// beside this library or program.
std::vector<std::string> plugin_folders();

// The address of `symbol` in our plug-in `file`, loaded with global symbols and kept.
// Errors: unavailable saying where it was looked for, or what the loader says.
Result<void*> load_plugin(const std::string& file, const char* symbol);

}  // namespace trireme
