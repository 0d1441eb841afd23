#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include <trireme/base/hash.h>

#include "checkpoint/plan.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

// Reads verified blocks; keeps the last file open and one block of memory.
class BlockReader {
 public:
  BlockReader(const std::string& folder, const Manifest& manifest)
      : folder_(folder), manifest_(manifest), buffer_(new std::byte[kChecksumBlockBytes]) {}

  // The bytes of block `block` of `part`, which has `part_bytes` in all.
  Result<const std::byte*> read(const SavedPart& part, std::uint64_t part_bytes, std::uint64_t block) {
    TRIREME_RETURN_IF_ERROR(open(part.file));
    const std::uint64_t begin = block * kChecksumBlockBytes;
    const auto length = static_cast<std::size_t>(std::min(kChecksumBlockBytes, part_bytes - begin));
    TRIREME_RETURN_IF_ERROR(file_->pread(buffer_.get(), length, part.offset + begin));
    if (hash64(buffer_.get(), length) != part.checksums[block]) {
      return data_loss("'" + file_->path() + "' from byte " + std::to_string(part.offset + begin) + ", " +
                       std::to_string(length) +
                       " bytes: the checksum is wrong; the file was damaged after it was saved");
    }
    return buffer_.get();
  }

 private:
  Status open(std::uint32_t file) {
    if (file_ && index_ == file) return Status::ok();
    TRIREME_ASSIGN_OR_RETURN(File opened, File::open(folder_ + "/" + manifest_.files[file].name, File::Mode::read));
    file_.emplace(std::move(opened));
    index_ = file;
    return Status::ok();
  }

  const std::string& folder_;
  const Manifest& manifest_;
  std::unique_ptr<std::byte[]> buffer_;
  std::optional<File> file_;
  std::uint32_t index_ = 0;
};

// Copies bytes [begin, end) of a part to `destination`, block by block.
Status copy_bytes(BlockReader& reader, const SavedPart& part, std::uint64_t part_bytes, std::uint64_t begin,
                  std::uint64_t end, std::byte* destination) {
  while (begin < end) {
    const std::uint64_t block = begin / kChecksumBlockBytes;
    TRIREME_ASSIGN_OR_RETURN(const std::byte* bytes, reader.read(part, part_bytes, block));
    const std::uint64_t block_end = std::min((block + 1) * kChecksumBlockBytes, end);
    std::memcpy(destination, bytes + (begin - block * kChecksumBlockBytes), block_end - begin);
    destination += block_end - begin;
    begin = block_end;
  }
  return Status::ok();
}

Status read_item(BlockReader& reader, const SavedItem& saved, const CheckpointItem& item) {
  const std::size_t element = size_of(item.type);
  std::vector<Range> ranges;
  for (const SavedPart& part : saved.parts) ranges.push_back(part.range);
  TRIREME_ASSIGN_OR_RETURN(const auto segments, plan_read(ranges, {item.shard.begin, item.shard.end}));
  for (const ReadSegment& segment : segments) {
    const SavedPart& part = saved.parts[segment.part];
    const std::uint64_t part_bytes = static_cast<std::uint64_t>(part.range.size()) * element;
    const std::uint64_t begin = static_cast<std::uint64_t>(segment.offset_in_part) * element;
    const std::uint64_t end = begin + static_cast<std::uint64_t>(segment.elements) * element;
    std::byte* destination =
        static_cast<std::byte*>(item.data) + static_cast<std::uint64_t>(segment.offset_in_wanted) * element;
    TRIREME_RETURN_IF_ERROR(copy_bytes(reader, part, part_bytes, begin, end, destination));
  }
  return Status::ok();
}

}  // namespace

Result<std::string> read_manifest_text(const std::string& folder) {
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(folder));
  if (!info.exists) return not_found("there is no checkpoint '" + folder + "'");
  if (!info.is_directory) return not_found("'" + folder + "' is a file, and a checkpoint is a folder");
  Result<std::string> text = read_file(folder + "/" + std::string(kManifestName));
  if (!text.is_ok() && text.status().code() == StatusCode::not_found) {
    return data_loss("'" + folder + "' has no " + std::string(kManifestName) +
                     ": it is no checkpoint (expected a folder such as step-00000120), or a damaged one");
  }
  return text;
}

Status check_files(const std::string& folder, const Manifest& manifest) {
  for (const SavedFile& file : manifest.files) {
    const std::string path = folder + "/" + file.name;
    TRIREME_ASSIGN_OR_RETURN(const FileInfo found, file_info(path));
    if (!found.exists) return data_loss("'" + path + "' is missing");
    if (found.bytes != file.bytes) {
      return data_loss("'" + path + "' has " + std::to_string(found.bytes) + " bytes, " + std::to_string(file.bytes) +
                       " were saved");
    }
  }
  return Status::ok();
}

Result<Manifest> open_checkpoint(const std::string& folder) {
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_manifest_text(folder));
  Result<Manifest> manifest = parse_manifest(text);
  if (!manifest.is_ok()) return manifest.status().with_context("'" + folder + "'");
  TRIREME_RETURN_IF_ERROR(check_files(folder, *manifest));
  return manifest;
}

Status check_state(const Manifest& manifest, const CheckpointState& state) {
  for (const CheckpointItem& item : state.items) {
    const SavedItem* saved = find_item(manifest, item.name);
    if (saved == nullptr) {
      return mismatch("the checkpoint has no item '" + item.name + "': it was saved by a different model or optimizer");
    }
    if (saved->type != item.type || !(saved->shape == item.shard.global_shape)) {
      return mismatch("item '" + item.name + "' is " + std::string(to_string(saved->type)) + " " +
                      saved->shape.to_string() + " in the checkpoint and " + std::string(to_string(item.type)) + " " +
                      item.shard.global_shape.to_string() + " in this program");
    }
  }
  return Status::ok();
}

Status read_state(const std::string& folder, const Manifest& manifest, const CheckpointState& state) {
  BlockReader reader(folder, manifest);
  for (const CheckpointItem& item : state.items) {
    const SavedItem* saved = find_item(manifest, item.name);
    TRIREME_CHECK(saved != nullptr, "read_state() without check_state()");
    TRIREME_RETURN_IF_ERROR(read_item(reader, *saved, item).with_context("item '" + item.name + "'"));
  }
  return Status::ok();
}

Status verify_contents(const std::string& folder, const Manifest& manifest) {
  BlockReader reader(folder, manifest);
  for (const SavedItem& item : manifest.items) {
    for (const SavedPart& part : item.parts) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(part.range.size()) * size_of(item.type);
      for (std::uint64_t block = 0; block < part.checksums.size(); ++block) {
        TRIREME_RETURN_IF_ERROR(reader.read(part, bytes, block).status().with_context("item '" + item.name + "'"));
      }
    }
  }
  return Status::ok();
}

}  // namespace trireme
