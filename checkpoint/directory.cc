#include "checkpoint/directory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTemporaryMark = ".tmp-";

std::string owner_path(const std::string& directory) {
  return directory + "/owner.json";
}

std::string owner_text(const DirectoryOwner& owner) {
  const nlohmann::json value = {{"job", owner.job_id}, {"epoch", owner.epoch}, {"token", owner.token}};
  return value.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Nobody, when the file is missing. Errors: data_loss.
Result<DirectoryOwner> read_owner(const std::string& directory) {
  const std::string path = owner_path(directory);
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(path));
  if (!info.exists) return DirectoryOwner{};
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  try {
    const nlohmann::json value = nlohmann::json::parse(text);
    return DirectoryOwner{value.at("job").get<std::string>(), value.at("epoch").get<std::int64_t>(),
                          value.at("token").get<std::string>()};
  } catch (const std::exception& error) {
    return data_loss("'" + path + "' is damaged (" + error.what() + "): remove it if no job uses this directory");
  }
}

// Some file systems have no locks; there the token alone must do, and the window between
// its check and the rename stays open.
Result<std::optional<FileLock>> lock_directory(const std::string& directory, Deadline deadline) {
  Result<FileLock> lock = FileLock::acquire(directory + "/.lock", deadline);
  if (lock.is_ok()) return std::optional<FileLock>(std::move(*lock));
  if (lock.status().code() != StatusCode::unsupported) return lock.status();
  TRIREME_LOG_WARN("checkpoint", "{}; an old attempt is fenced off by {} only", lock.status().message(),
                   owner_path(directory));
  return std::optional<FileLock>();
}

Status check_owner(const std::string& directory, const DirectoryOwner& owner) {
  TRIREME_ASSIGN_OR_RETURN(const DirectoryOwner now, read_owner(directory));
  if (now.token == owner.token) return Status::ok();
  if (now.token.empty()) {
    return not_found("'" + owner_path(directory) +
                     "' is gone, so nobody may commit: was the directory cleared while "
                     "this job runs? Restart it to claim the directory again");
  }
  return stale_epoch("the checkpoint directory '" + directory + "' was taken over by job '" + now.job_id + "', epoch " +
                     std::to_string(now.epoch) + ": job '" + owner.job_id + "', epoch " + std::to_string(owner.epoch) +
                     ", must stop");
}

Status remove_leftovers(const std::string& directory) {
  TRIREME_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_directory(directory));
  for (const std::string& name : names) {
    const std::size_t mark = name.find(kTemporaryMark);
    if (mark == std::string::npos || !step_of_name(std::string_view(name).substr(0, mark))) continue;
    TRIREME_LOG_INFO("checkpoint", "removing {}/{}, left by an attempt that ended", directory, name);
    TRIREME_RETURN_IF_ERROR(remove_tree(directory + "/" + name));
  }
  return Status::ok();
}

Status write_durably(const std::string& path, const std::string& text) {
  TRIREME_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::create));
  TRIREME_RETURN_IF_ERROR(file.write(text));
  TRIREME_RETURN_IF_ERROR(file.sync());
  return file.close();
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof(name), "step-%08lld", static_cast<long long>(step));
  return name;
}

std::string temporary_name(std::int64_t step, std::int64_t epoch) {
  return checkpoint_name(step) + std::string(kTemporaryMark) + std::to_string(epoch);
}

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (name.substr(0, kStepPrefix.size()) != kStepPrefix) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  std::int64_t step = -1;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

Status claim_directory(const std::string& directory, const DirectoryOwner& owner, Deadline deadline) {
  TRIREME_RETURN_IF_ERROR(make_directories(directory));
  TRIREME_ASSIGN_OR_RETURN(const auto lock, lock_directory(directory, deadline));
  TRIREME_ASSIGN_OR_RETURN(const DirectoryOwner before, read_owner(directory));
  if (!owner.job_id.empty() && before.job_id == owner.job_id && before.epoch > owner.epoch) {
    return stale_epoch("the checkpoint directory '" + directory + "' belongs to epoch " + std::to_string(before.epoch) +
                       " of job '" + owner.job_id + "', and this attempt is epoch " + std::to_string(owner.epoch) +
                       "; if no such attempt runs, remove '" + owner_path(directory) + "'");
  }
  TRIREME_RETURN_IF_ERROR(write_file_atomically(owner_path(directory), owner_text(owner)));
  return remove_leftovers(directory);
}

Status commit_checkpoint(const std::string& directory, const DirectoryOwner& owner, const std::string& temporary,
                         const Manifest& manifest, Deadline deadline) {
  const std::string from = directory + "/" + temporary;
  const std::string to = directory + "/" + checkpoint_name(manifest.metadata.step);
  TRIREME_ASSIGN_OR_RETURN(const std::string text, manifest_to_json(manifest));
  TRIREME_RETURN_IF_ERROR(write_durably(from + "/" + std::string(kManifestName), text));
  TRIREME_RETURN_IF_ERROR(sync_directory(from));
  TRIREME_ASSIGN_OR_RETURN(const auto lock, lock_directory(directory, deadline));
  TRIREME_RETURN_IF_ERROR(check_owner(directory, owner));
  TRIREME_ASSIGN_OR_RETURN(const FileInfo replaced, file_info(to));
  TRIREME_RETURN_IF_ERROR(replaced.exists ? exchange_paths(from, to) : rename_path(from, to));
  TRIREME_RETURN_IF_ERROR(sync_directory(directory));
  // The checkpoint that was replaced now has the temporary name.
  if (replaced.exists) {
    const Status removed = remove_tree(from);
    if (!removed.is_ok()) TRIREME_LOG_WARN("checkpoint", "{}", removed.message());
  }
  return Status::ok();
}

}  // namespace trireme
