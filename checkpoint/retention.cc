#include "checkpoint/retention.h"

#include "checkpoint/catalog.h"
#include "runtime/platform/api/files.h"

namespace trireme {

Status delete_old_checkpoints(const std::string& directory, int keep_last) {
  if (keep_last == 0) return Status::ok();
  TRIREME_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> entries, list_checkpoints(directory));
  int kept = 0;
  for (const CatalogEntry& entry : entries) {
    if (!entry.has_manifest || kept++ < keep_last) continue;
    const std::string doomed = entry.path + ".tmp-deleted";
    TRIREME_RETURN_IF_ERROR(remove_tree(doomed));
    TRIREME_RETURN_IF_ERROR(rename_path(entry.path, doomed));
    TRIREME_RETURN_IF_ERROR(remove_tree(doomed));
  }
  return Status::ok();
}

}  // namespace trireme
