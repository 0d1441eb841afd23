#include "checkpoint/catalog.h"

#include <algorithm>
#include <tuple>

#include "checkpoint/directory.h"
#include "checkpoint/reader.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

CatalogEntry examine(const std::string& path, std::int64_t step) {
  CatalogEntry entry;
  entry.path = path;
  entry.step = step;
  const Result<std::string> text = read_manifest_text(path);
  Result<Manifest> manifest = text.is_ok() ? parse_manifest(*text) : Result<Manifest>(text.status());
  if (!manifest.is_ok()) {
    entry.status = manifest.status();
    return entry;
  }
  entry.has_manifest = true;
  entry.manifest = std::move(*manifest);
  if (entry.manifest.metadata.step != step) {
    entry.status = data_loss("'" + path + "' holds step " + std::to_string(entry.manifest.metadata.step) +
                             ": it was renamed after it was saved");
    return entry;
  }
  entry.status = check_files(path, entry.manifest);
  return entry;
}

bool is_newer(const CatalogEntry& a, const CatalogEntry& b) {
  const auto key = [](const CatalogEntry& entry) {
    return std::tuple(!entry.has_manifest, entry.has_manifest ? entry.manifest.generation : 0, entry.step);
  };
  return key(a) > key(b);
}

}  // namespace

Result<std::vector<CatalogEntry>> list_checkpoints(const std::string& directory) {
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(directory));
  std::vector<CatalogEntry> entries;
  if (!info.exists) return entries;
  TRIREME_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_directory(directory));
  for (const std::string& name : names) {
    if (const auto step = step_of_name(name)) entries.push_back(examine(directory + "/" + name, *step));
  }
  std::sort(entries.begin(), entries.end(), is_newer);
  return entries;
}

}  // namespace trireme
