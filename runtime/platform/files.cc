#include "runtime/platform/api/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <trireme/platform/environment.h>

#include "runtime/platform/api/process.h"
#include "runtime/platform/system_call.h"

namespace trireme {
namespace {

std::string parent_folder(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status make_directory(const std::string& path) {
  if (retried("file.mkdir", [&] { return ::mkdir(path.c_str(), 0777); }) == 0) return Status::ok();
  const int error_number = errno;
  struct stat info {};
  if (error_number == EEXIST && ::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Status::ok();
    return already_exists("make folder '" + path + "': a file of that name is in the way");
  }
  return errno_status(error_number, "make folder '" + path + "'");
}

// /dev/stdout (which may lead to a file), /dev/null, a named pipe: to be written to, never to be replaced.
Result<bool> is_written_in_place(const std::string& path) {
  for (const std::string_view opened : {"/proc/", "/dev/fd/", "/dev/stdout", "/dev/stderr"}) {
    if (path.compare(0, opened.size(), opened) == 0) return true;
  }
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(path));
  return info.exists && !info.is_file && !info.is_directory;
}

Status is_folder(const std::string& path) {
  return invalid_argument("write '" + path + "': it is a folder; give the name of a file");
}

// Where a link leads; the path itself when there is none.
std::string followed(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string target = resolved;
  std::free(resolved);
  return target;
}

std::string temporary_beside(const std::string& path) {
  return path + ".tmp-" + std::to_string(current_pid()) + "-" + random_hex(4);
}

// unlinkat(2) for everything below `folder` (an open descriptor, which this closes).
Status remove_entries(int folder, const std::string& path);

Status remove_entry(int folder, const char* name, const std::string& path) {
  if (retried("file.remove", [&] { return ::unlinkat(folder, name, 0); }) == 0 || errno == ENOENT) return Status::ok();
  if (errno != EISDIR && errno != EPERM) return errno_status(errno, "remove '" + path + "'");
  const int inner = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return errno == ENOENT ? Status::ok() : errno_status(errno, "remove '" + path + "'");
  TRIREME_RETURN_IF_ERROR(remove_entries(inner, path));
  if (retried("file.remove", [&] { return ::unlinkat(folder, name, AT_REMOVEDIR); }) == 0 || errno == ENOENT) {
    return Status::ok();
  }
  return errno_status(errno, "remove folder '" + path + "'");
}

Status remove_entries(int folder, const std::string& path) {
  DIR* entries = ::fdopendir(folder);
  if (entries == nullptr) {
    const int error_number = errno;
    ::close(folder);
    return errno_status(error_number, "list '" + path + "'");
  }
  Status status;
  while (const dirent* entry = ::readdir(entries)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    status = remove_entry(::dirfd(entries), entry->d_name, path + "/" + entry->d_name);
    if (!status.is_ok()) break;
  }
  ::closedir(entries);
  return status;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  TRIREME_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::read));
  std::string contents;
  TRIREME_ASSIGN_OR_RETURN(const std::uint64_t expected, file.size());
  // Files of /proc say 0, so the size is only a hint.
  std::size_t used = 0;
  contents.resize(static_cast<std::size_t>(expected) + 4096);
  while (true) {
    const ssize_t got =
        retried("file.read", [&] { return ::read(file.fd(), contents.data() + used, contents.size() - used); });
    if (got < 0) return errno_status(errno, "read '" + path + "'");
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used == contents.size()) contents.resize(contents.size() * 2);
  }
  contents.resize(used);
  return contents;
}

Status write_file_atomically(const std::string& path, std::string_view contents) {
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(path));
  if (info.is_directory) return is_folder(path);
  TRIREME_ASSIGN_OR_RETURN(const bool in_place, is_written_in_place(path));
  if (in_place) {
    TRIREME_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::append));
    TRIREME_RETURN_IF_ERROR(file.write(contents));
    return file.close();
  }
  const std::string target = followed(path);
  const std::string temporary = temporary_beside(target);
  Status status = [&]() -> Status {
    TRIREME_ASSIGN_OR_RETURN(File file, File::open(temporary, File::Mode::create_new));
    TRIREME_RETURN_IF_ERROR(file.write(contents));
    TRIREME_RETURN_IF_ERROR(file.sync());
    TRIREME_RETURN_IF_ERROR(file.close());
    return rename_path(temporary, target);
  }();
  if (!status.is_ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return sync_directory(parent_folder(target));
}

Status check_can_write(const std::string& path) {
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(path));
  if (info.is_directory) return is_folder(path);
  TRIREME_ASSIGN_OR_RETURN(const bool in_place, is_written_in_place(path));
  if (in_place) {
    // Not opened: a pipe would wait for its reader.
    return ::access(path.c_str(), W_OK) == 0 ? Status::ok() : errno_status(errno, "write to '" + path + "'");
  }
  const std::string target = followed(path);
  const std::string folder = parent_folder(target);
  TRIREME_ASSIGN_OR_RETURN(const FileInfo parent, file_info(folder));
  if (!parent.is_directory)
    return not_found("write '" + path + "': there is no folder '" + folder + "'; make it first");
  const std::string temporary = temporary_beside(target);
  const Result<File> probe = File::open(temporary, File::Mode::create_new);
  if (!probe.is_ok()) return Status(probe.status().code(), "write '" + path + "': " + probe.status().message());
  return remove_file(temporary);
}

Result<FileInfo> file_info(const std::string& path) {
  struct stat info {};
  if (retried("file.stat", [&] { return ::stat(path.c_str(), &info); }) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return FileInfo{};
    return errno_status(errno, "look at '" + path + "'");
  }
  return FileInfo{true, S_ISDIR(info.st_mode), static_cast<std::uint64_t>(info.st_size), S_ISREG(info.st_mode)};
}

Status make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    TRIREME_RETURN_IF_ERROR(make_directory(path.substr(0, slash)));
  }
  return make_directory(path);
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  const int fd = retried("file.list", [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return errno_status(errno, "list folder '" + path + "'");
  DIR* entries = ::fdopendir(fd);
  if (entries == nullptr) {
    const int error_number = errno;
    ::close(fd);
    return errno_status(error_number, "list folder '" + path + "'");
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  const int error_number = errno;
  ::closedir(entries);
  if (error_number != 0) return errno_status(error_number, "list folder '" + path + "'");
  std::sort(names.begin(), names.end());
  return names;
}

Status rename_path(const std::string& from, const std::string& to) {
  if (retried("file.rename", [&] { return ::rename(from.c_str(), to.c_str()); }) == 0) return Status::ok();
  return errno_status(errno, "rename '" + from + "' to '" + to + "'");
}

Status exchange_paths(const std::string& from, const std::string& to) {
  const int result = retried(
      "file.rename", [&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE); });
  if (result == 0) return Status::ok();
  const int error_number = errno;
  if (error_number != EINVAL && error_number != ENOSYS && error_number != EOPNOTSUPP) {
    return errno_status(error_number, "exchange '" + from + "' and '" + to + "'");
  }
  const std::string aside = to + ".tmp-aside-" + random_hex(4);
  TRIREME_RETURN_IF_ERROR(rename_path(to, aside));
  TRIREME_RETURN_IF_ERROR(rename_path(from, to));
  return rename_path(aside, from);
}

Status sync_directory(const std::string& path) {
  const UniqueFd folder(retried("file.open", [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder.valid()) return errno_status(errno, "open folder '" + path + "'");
  if (retried("file.fsync", [&] { return ::fsync(folder.get()); }) == 0) return Status::ok();
  return errno_status(errno, "fsync folder '" + path + "'");
}

Status remove_file(const std::string& path) {
  if (retried("file.remove", [&] { return ::unlink(path.c_str()); }) == 0) return Status::ok();
  return errno_status(errno, "remove '" + path + "'");
}

Status remove_tree(const std::string& path) {
  return remove_entry(AT_FDCWD, path.c_str(), path);
}

Result<std::uint64_t> free_disk_bytes(const std::string& path) {
  struct statvfs info {};
  if (retried("file.stat", [&] { return ::statvfs(path.c_str(), &info); }) != 0) {
    return errno_status(errno, "free space of the disk that holds '" + path + "'");
  }
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

Result<std::string> make_temporary_directory(std::string_view prefix) {
  std::string path = environment("TMPDIR").value_or("/tmp") + "/" + std::string(prefix) + "XXXXXX";
  if (const int fault = inject_fault("file.mkdir"); fault != 0) {
    return errno_status(fault, "make a temporary folder '" + path + "'");
  }
  if (::mkdtemp(path.data()) == nullptr) return errno_status(errno, "make a temporary folder '" + path + "'");
  return path;
}

}  // namespace trireme
