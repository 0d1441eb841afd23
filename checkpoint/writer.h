// Writing one rank's shard file.
#pragma once

#include <string>

#include <trireme/base/status.h>

#include "checkpoint/shard_table.h"

namespace trireme {

// "shard-00003.bin"
std::string shard_file_name(int rank);

// Computes the entries' checksums from the staged bytes, writes `table.file_bytes` of
// them to folder/table.file and makes file and name durable. Errors: those of files;
// resource_exhausted before anything is written when the disk cannot hold it.
Status write_shard(const std::string& folder, const std::byte* staged, ShardTable& table);

}  // namespace trireme
