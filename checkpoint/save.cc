// A save as the ranks see it:
//   every rank   write and fsync the shard file in step-N.tmp-EPOCH/
//   gather       tables (or the reason of a failure) go to rank 0
//   rank 0       prove coverage, write and fsync the manifest, check ownership, rename
//   announce     the verdict
// Rank 0 acts only after every rank has posted, so nobody writes in a folder that it
// removes or renames.
#include "checkpoint/save.h"

#include <trireme/base/hash.h>

#include "checkpoint/assembly.h"
#include "checkpoint/retention.h"
#include "checkpoint/writer.h"
#include "runtime/platform/api/files.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme {
namespace {

Status write_own_shard(const SaveContext& context, const std::string& temporary, SaveJob& job) {
  TRIREME_RETURN_IF_ERROR(job.table.status);
  const std::string folder = context.options.directory + "/" + temporary;
  TRIREME_RETURN_IF_ERROR(make_directories(folder));
  return write_shard(folder, job.staged, job.table);
}

Status commit(SaveContext& context, const std::string& temporary, const SaveJob& job,
              const std::vector<std::string>& gathered) {
  std::vector<ShardTable> tables;
  for (const std::string& bytes : gathered) {
    TRIREME_ASSIGN_OR_RETURN(ShardTable table, decode_table(bytes));
    tables.push_back(std::move(table));
  }
  TRIREME_ASSIGN_OR_RETURN(Manifest manifest, assemble_manifest(std::move(tables)));
  const std::string& directory = context.options.directory;
  for (const SavedFile& file : manifest.files) {
    TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(directory + "/" + temporary + "/" + file.name));
    if (!info.exists || info.bytes != file.bytes) {
      return data_loss("rank 0 does not see " + file.name + " of " + std::to_string(file.bytes) + " bytes in '" +
                       directory + "/" + temporary + "': the directory must be on storage that all ranks share");
    }
  }
  manifest.job_id = context.owner.job_id;
  manifest.generation = context.generation + 1;
  manifest.wall_ms = system_clock().wall_ms();
  manifest.metadata = job.metadata;
  TRIREME_RETURN_IF_ERROR(commit_checkpoint(directory, context.owner, temporary, manifest, job.deadline));
  ++context.generation;
  return Status::ok();
}

void log_failure(const SaveJob& job, const Status& status) {
  TRIREME_LOG_WARN("checkpoint", "the checkpoint of step {} failed, training goes on: {}", job.metadata.step,
                   status.to_string());
}

void finish_on_root(SaveContext& context, const std::string& temporary, const SaveJob& job, const Status& outcome) {
  const std::string& directory = context.options.directory;
  if (!outcome.is_ok()) {
    log_failure(job, outcome);
    const Status removed = remove_tree(directory + "/" + temporary);
    if (!removed.is_ok()) TRIREME_LOG_WARN("checkpoint", "{}", removed.message());
    return;
  }
  TRIREME_LOG_INFO("checkpoint", "committed {}/{}", directory, checkpoint_name(job.metadata.step));
  context.agreement->world().notify_launcher("checkpoint", std::to_string(job.metadata.step));
}

}  // namespace

Status run_save(SaveContext& context, SaveJob& job) {
  Agreement& agreement = *context.agreement;
  const std::string temporary = temporary_name(job.metadata.step, job.metadata.epoch);
  job.table.status = write_own_shard(context, temporary, job);
  if (!job.table.status.is_ok()) job.table.entries.clear();
  const auto gathered = agreement.gather(job.name + "/tables", encode_table(job.table), job.deadline);
  if (!agreement.is_root()) {
    if (gathered.is_ok()) {
      const auto verdict = agreement.announce(job.name + "/verdict", "", job.deadline);
      if (verdict.is_ok()) return decode_status(*verdict);
      log_failure(job, verdict.status());
      return verdict.status();
    }
    log_failure(job, gathered.status());
    return gathered.status();
  }
  const Status outcome = gathered.is_ok() ? commit(context, temporary, job, *gathered) : gathered.status();
  finish_on_root(context, temporary, job, outcome);
  // A rank that cannot hear the verdict any more changes nothing about it.
  if (gathered.is_ok()) {
    const auto told = agreement.announce(job.name + "/verdict", encode_status(outcome), job.deadline);
    if (!told.is_ok()) TRIREME_LOG_WARN("checkpoint", "not every rank heard: {}", told.status().to_string());
  }
  if (outcome.is_ok()) {
    const Status deleted = delete_old_checkpoints(context.options.directory, context.options.keep_last);
    if (!deleted.is_ok()) TRIREME_LOG_WARN("checkpoint", "deleting old checkpoints: {}", deleted.message());
  }
  return outcome;
}

}  // namespace trireme
