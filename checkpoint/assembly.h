// From the tables of all ranks to one manifest: where a save is proved complete.
#pragma once

#include <vector>

#include <trireme/base/status.h>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_table.h"

namespace trireme {

// tables[r] is of rank r. Fills files and items of the manifest; metadata is the caller's.
// Errors: the first failed rank's status, naming the rank; mismatch when ranks saved
// different steps, metadata, types or shapes; data_loss when an element is saved by no
// rank or by several, naming item and elements.
Result<Manifest> assemble_manifest(std::vector<ShardTable> tables);

}  // namespace trireme
