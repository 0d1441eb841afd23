#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/platform/api/fault.h"
#include "runtime/platform/api/files.h"
#include "runtime/platform/system_call.h"

namespace trireme {
namespace {

int open_flags(File::Mode mode) {
  switch (mode) {
    case File::Mode::read:
      return O_RDONLY;
    case File::Mode::create:
      return O_RDWR | O_CREAT | O_TRUNC;
    case File::Mode::create_new:
      return O_RDWR | O_CREAT | O_EXCL;
    case File::Mode::append:
      return O_WRONLY | O_CREAT | O_APPEND;
    case File::Mode::update:
      return O_RDWR;
  }
  return O_RDONLY;
}

}  // namespace

Result<File> File::open(const std::string& path, Mode mode) {
  const int fd = retried("file.open", [&] { return ::open(path.c_str(), open_flags(mode) | O_CLOEXEC, 0666); });
  if (fd < 0) {
    const bool reading = mode == Mode::read;
    return errno_status(errno, (reading ? "open for reading '" : "open for writing '") + path + "'");
  }
  return File(UniqueFd(fd), path);
}

Status File::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = retried("file.write", [&] { return ::write(fd_.get(), next, bytes); });
    if (written < 0) return errno_status(errno, "write to '" + path_ + "'");
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return Status::ok();
}

Status File::pwrite(const void* data, std::size_t bytes, std::uint64_t offset) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written =
        retried("file.write", [&] { return ::pwrite(fd_.get(), next, bytes, static_cast<off_t>(offset)); });
    if (written < 0) {
      return errno_status(errno, "write to '" + path_ + "' at byte " + std::to_string(offset));
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
    offset += static_cast<std::uint64_t>(written);
  }
  return Status::ok();
}

Status File::pread(void* data, std::size_t bytes, std::uint64_t offset) const {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got =
        retried("file.read", [&] { return ::pread(fd_.get(), next, bytes, static_cast<off_t>(offset)); });
    if (got < 0) return errno_status(errno, "read '" + path_ + "' at byte " + std::to_string(offset));
    if (got == 0) {
      return data_loss("read '" + path_ + "': the file ends at byte " + std::to_string(offset) + ", " +
                       std::to_string(bytes) + " more were expected; it was truncated or never finished");
    }
    next += got;
    bytes -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return Status::ok();
}

Result<std::uint64_t> File::size() const {
  struct stat info {};
  if (retried("file.stat", [&] { return ::fstat(fd_.get(), &info); }) != 0) {
    return errno_status(errno, "size of '" + path_ + "'");
  }
  return static_cast<std::uint64_t>(info.st_size);
}

Status File::truncate(std::uint64_t bytes) {
  if (retried("file.truncate", [&] { return ::ftruncate(fd_.get(), static_cast<off_t>(bytes)); }) != 0) {
    return errno_status(errno, "set '" + path_ + "' to " + std::to_string(bytes) + " bytes");
  }
  return Status::ok();
}

Status File::allocate(std::uint64_t bytes) {
  if (bytes == 0) return Status::ok();
  if (retried("file.allocate", [&] { return ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)); }) == 0) {
    return Status::ok();
  }
  const int error_number = errno;
  if (error_number != EOPNOTSUPP && error_number != ENOSYS) {
    return errno_status(error_number, "reserve " + std::to_string(bytes) + " bytes for '" + path_ + "'");
  }
  // This file system cannot reserve blocks: the best that can be done is to look.
  TRIREME_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, free_disk_bytes(path_));
  if (free_bytes < bytes) {
    return resource_exhausted("'" + path_ + "' needs " + std::to_string(bytes) + " bytes, its disk has " +
                              std::to_string(free_bytes) + " free");
  }
  return truncate(bytes);
}

Status File::sync() {
  if (retried("file.fsync", [&] { return ::fsync(fd_.get()); }) != 0) {
    return errno_status(errno, "fsync '" + path_ + "'");
  }
  return Status::ok();
}

Status File::close() {
  if (!fd_.valid()) return Status::ok();
  const int fault = inject_fault("file.close");
  const int result = ::close(fd_.release());
  const int error_number = fault != 0 ? fault : errno;
  if (result == 0 && fault == 0) return Status::ok();
  if (error_number == EINTR) return Status::ok();  // Linux has closed it all the same.
  return errno_status(error_number, "close '" + path_ + "'");
}

Result<FileLock> FileLock::acquire(const std::string& path, Deadline deadline) {
  TRIREME_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::append));
  while (retried("file.lock", [&] { return ::flock(file.fd(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) {
      return unsupported("lock '" + path + "': its file system has no file locks");
    }
    if (errno != EWOULDBLOCK) return errno_status(errno, "lock '" + path + "'");
    if (deadline.expired()) return deadline_exceeded("lock '" + path + "': another process holds it");
    system_clock().sleep_ns(5'000'000);
  }
  return FileLock(std::move(file));
}

}  // namespace trireme
