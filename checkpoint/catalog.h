// The checkpoints of a directory, as one finds them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "checkpoint/manifest.h"

namespace trireme {

struct CatalogEntry {
  std::string path;
  std::int64_t step = 0;  // By its name.
  Status status;          // Of reading the manifest and looking at the files' lengths.
  bool has_manifest = false;
  Manifest manifest;  // When has_manifest: readable, though files may be missing.
};

// Every folder with a checkpoint's name, newest commit first; those whose manifest
// cannot be read come before the rest, by step. An empty list when there is no such
// directory. Errors: permission_denied and the like, of listing it.
Result<std::vector<CatalogEntry>> list_checkpoints(const std::string& directory);

}  // namespace trireme
