#include "checkpoint/writer.h"

#include <algorithm>
#include <cstdio>

#include <trireme/base/hash.h>

#include "checkpoint/manifest.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

void add_checksums(const std::byte* staged, ShardEntry& entry) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(entry.range.size()) * size_of(entry.type);
  entry.checksums.clear();
  for (std::uint64_t block = 0; block < bytes; block += kChecksumBlockBytes) {
    const std::uint64_t length = std::min(kChecksumBlockBytes, bytes - block);
    entry.checksums.push_back(hash64(staged + entry.offset + block, static_cast<std::size_t>(length)));
  }
}

}  // namespace

std::string shard_file_name(int rank) {
  char name[32];
  std::snprintf(name, sizeof(name), "shard-%05d.bin", rank);
  return name;
}

Status write_shard(const std::string& folder, const std::byte* staged, ShardTable& table) {
  // Before the disk is touched: the checksums are of what was staged.
  for (ShardEntry& entry : table.entries) add_checksums(staged, entry);
  TRIREME_ASSIGN_OR_RETURN(File file, File::open(folder + "/" + table.file, File::Mode::create));
  TRIREME_RETURN_IF_ERROR(file.allocate(table.file_bytes));
  for (std::uint64_t offset = 0; offset < table.file_bytes; offset += kChecksumBlockBytes) {
    const std::uint64_t length = std::min(kChecksumBlockBytes, table.file_bytes - offset);
    TRIREME_RETURN_IF_ERROR(file.pwrite(staged + offset, static_cast<std::size_t>(length), offset));
  }
  TRIREME_RETURN_IF_ERROR(file.sync());
  TRIREME_RETURN_IF_ERROR(file.close());
  return sync_directory(folder);
}

}  // namespace trireme
