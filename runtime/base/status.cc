#include <trireme/base/status.h>

#include <cerrno>
#include <cstring>

namespace trireme {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_argument:
      return "invalid_argument";
    case StatusCode::not_found:
      return "not_found";
    case StatusCode::already_exists:
      return "already_exists";
    case StatusCode::permission_denied:
      return "permission_denied";
    case StatusCode::resource_exhausted:
      return "resource_exhausted";
    case StatusCode::deadline_exceeded:
      return "deadline_exceeded";
    case StatusCode::peer_dead:
      return "peer_dead";
    case StatusCode::mismatch:
      return "mismatch";
    case StatusCode::aborted:
      return "aborted";
    case StatusCode::stale_epoch:
      return "stale_epoch";
    case StatusCode::data_loss:
      return "data_loss";
    case StatusCode::unavailable:
      return "unavailable";
    case StatusCode::unsupported:
      return "unsupported";
    case StatusCode::io_error:
      return "io_error";
  }
  return "unknown";
}

int exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return 0;
    case StatusCode::invalid_argument:
    case StatusCode::not_found:
    case StatusCode::already_exists:
    case StatusCode::permission_denied:
    case StatusCode::resource_exhausted:
    case StatusCode::unsupported:
      return 2;
    default:
      return 1;
  }
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::ok) rep_ = std::make_shared<const Rep>(Rep{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

std::string Status::to_string() const {
  if (!rep_) return "ok";
  return std::string(trireme::to_string(rep_->code)) + ": " + rep_->message;
}

Status Status::with_context(std::string_view context) const {
  if (!rep_) return {};
  return Status(rep_->code, std::string(context) + ": " + rep_->message);
}

#define TRIREME_DEFINE_STATUS(name)                      \
  Status name(std::string message) {                     \
    return Status(StatusCode::name, std::move(message)); \
  }
TRIREME_DEFINE_STATUS(invalid_argument)
TRIREME_DEFINE_STATUS(not_found)
TRIREME_DEFINE_STATUS(already_exists)
TRIREME_DEFINE_STATUS(permission_denied)
TRIREME_DEFINE_STATUS(resource_exhausted)
TRIREME_DEFINE_STATUS(deadline_exceeded)
TRIREME_DEFINE_STATUS(peer_dead)
TRIREME_DEFINE_STATUS(mismatch)
TRIREME_DEFINE_STATUS(aborted)
TRIREME_DEFINE_STATUS(stale_epoch)
TRIREME_DEFINE_STATUS(data_loss)
TRIREME_DEFINE_STATUS(unavailable)
TRIREME_DEFINE_STATUS(unsupported)
TRIREME_DEFINE_STATUS(io_error)
#undef TRIREME_DEFINE_STATUS

namespace {

StatusCode code_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
      return StatusCode::not_found;
    case EEXIST:
    case EADDRINUSE:
      return StatusCode::already_exists;
    case EACCES:
    case EPERM:
    case EROFS:
      return StatusCode::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EFBIG:
    case EAGAIN:
      return StatusCode::resource_exhausted;
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
    case E2BIG:
    case ENOEXEC:
      return StatusCode::invalid_argument;
    case ETIMEDOUT:
      return StatusCode::deadline_exceeded;
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENODEV:
    case ENOSYS:
      return StatusCode::unavailable;
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
      return StatusCode::peer_dead;
    default:
      return StatusCode::io_error;
  }
}

}  // namespace

Status errno_status(int error_number, std::string_view what) {
  const char* name = strerrorname_np(error_number);
  std::string message(what);
  message += ": ";
  message += name ? name : ("errno " + std::to_string(error_number));
  message += " (";
  message += strerrordesc_np(error_number) ? strerrordesc_np(error_number) : "unknown error";
  message += ")";
  return Status(code_of_errno(error_number), std::move(message));
}

}  // namespace trireme
