// Files and folders. Every call retries EINTR and short transfers, honours fault
// injection (fault.h), and names the path in its errors.
// Thread safety: free functions are safe; a File is used by one thread at a time, but
// for pread/pwrite, which may run concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>
#include <trireme/platform/clock.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {

class File {
 public:
  enum class Mode {
    read,        // Must exist.
    create,      // Created, or truncated when it exists.
    create_new,  // Must not exist.
    append,      // Created when missing; writes go to the end.
    update,      // Must exist; read and write.
  };
  static Result<File> open(const std::string& path, Mode mode);

  Status write(const void* data, std::size_t bytes);
  Status write(std::string_view text) { return write(text.data(), text.size()); }
  Status pwrite(const void* data, std::size_t bytes, std::uint64_t offset);
  // Errors: data_loss when the file ends before `bytes`.
  Status pread(void* data, std::size_t bytes, std::uint64_t offset) const;
  Result<std::uint64_t> size() const;
  Status truncate(std::uint64_t bytes);
  // Reserves disk blocks; resource_exhausted when the disk cannot hold them.
  Status allocate(std::uint64_t bytes);
  Status sync();
  // Closes and reports what close(2) says; the destructor closes silently.
  Status close();
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  File(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

struct FileInfo {
  bool exists = false;
  bool is_directory = false;
  std::uint64_t bytes = 0;
  bool is_file = false;  // Neither a folder nor a device, pipe or socket.
};

Result<std::string> read_file(const std::string& path);
// Writes beside, fsyncs, renames over, fsyncs the folder: readers see old or new, never half.
// A link stays, and what it points to is replaced. What is no file (a device, a pipe) and
// what is open already (/dev/stdout, /proc/self/fd/1) is never replaced, but written to.
Status write_file_atomically(const std::string& path, std::string_view contents);
// Whether write_file_atomically() would find a place for `path`, asked before the work whose
// result it is to hold. Errors: as there, but for a full disk. Leaves nothing behind.
Status check_can_write(const std::string& path);
Result<FileInfo> file_info(const std::string& path);  // A missing path is not an error.
Status make_directories(const std::string& path);
// Names (not paths) in the folder, sorted; "." and ".." left out.
Result<std::vector<std::string>> list_directory(const std::string& path);
Status rename_path(const std::string& from, const std::string& to);
// Swaps two paths in one step where the file system can; where it cannot, `to` is missing
// for a moment.
Status exchange_paths(const std::string& from, const std::string& to);
Status sync_directory(const std::string& path);
Status remove_file(const std::string& path);  // not_found when missing.
Status remove_tree(const std::string& path);  // Missing is fine.
// Bytes an unprivileged writer may still use on the file system that holds `path`.
Result<std::uint64_t> free_disk_bytes(const std::string& path);
// A new empty folder under $TMPDIR (or /tmp) whose name begins with `prefix`.
Result<std::string> make_temporary_directory(std::string_view prefix);

// An exclusive lock between processes (and between objects of one process) for as long
// as the object lives. The file at `path` is created and stays.
class FileLock {
 public:
  // Errors: deadline_exceeded; unsupported when the file system knows no locks.
  static Result<FileLock> acquire(const std::string& path, Deadline deadline);

 private:
  explicit FileLock(File file) : file_(std::move(file)) {}
  File file_;
};

}  // namespace trireme
