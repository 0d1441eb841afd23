// A load as the ranks see it:
//   gather       every rank's item names (or what is wrong with its state)
//   announce     rank 0: try this folder | loaded | there is none | failed
//   every rank   read its ranges, verify checksums
//   gather       outcomes; damage means the next candidate, anything else is the answer
// and so on until rank 0 has announced an end.
#include "checkpoint/load.h"

#include <set>

#include <trireme/base/hash.h>
#include <trireme/base/wire.h>

#include "checkpoint/catalog.h"
#include "checkpoint/reader.h"
#include "checkpoint/shard_table.h"
#include "checkpoint/staging.h"
#include "runtime/telemetry/api/log_format.h"

namespace trireme {
namespace {

struct Proposal {
  enum class Kind : std::uint8_t { attempt, loaded, none, failed };
  Kind kind = Kind::failed;
  std::string path;                 // attempt
  std::uint64_t manifest_hash = 0;  // attempt: all ranks must see the same manifest.
  Status status;                    // failed
};

std::string encode(const Proposal& proposal) {
  WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(proposal.kind));
  writer.bytes(proposal.path);
  writer.u64(proposal.manifest_hash);
  writer.bytes(encode_status(proposal.status));
  return writer.take();
}

Result<Proposal> decode(std::string_view bytes) {
  WireReader reader(bytes);
  Proposal proposal;
  const std::uint8_t kind = reader.u8();
  proposal.kind = static_cast<Proposal::Kind>(kind);
  proposal.path = reader.string();
  proposal.manifest_hash = reader.u64();
  proposal.status = decode_status(reader.bytes());
  if (!reader.finished() || kind > static_cast<std::uint8_t>(Proposal::Kind::failed)) {
    return data_loss("rank 0's choice of a checkpoint cannot be read");
  }
  return proposal;
}

std::string encode_names(const CheckpointState& state) {
  WireWriter writer;
  writer.bytes(encode_status(plan_staging(state).status()));
  writer.u32(static_cast<std::uint32_t>(state.items.size()));
  for (const CheckpointItem& item : state.items) writer.bytes(item.name);
  return writer.take();
}

// Rank 0's side: the candidates, the names anybody wants, the decision.
class Chooser {
 public:
  explicit Chooser(const LoadJob& job) : job_(job) {}

  Status start(const std::vector<std::string>& gathered) {
    for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
      WireReader reader(gathered[rank]);
      TRIREME_RETURN_IF_ERROR(decode_status(reader.bytes()).with_context("rank " + std::to_string(rank)));
      for (std::uint32_t left = reader.u32(); left > 0 && !reader.failed(); --left) wanted_.insert(reader.string());
      if (!reader.finished()) return data_loss("the item names of rank " + std::to_string(rank) + " cannot be read");
    }
    if (!job_.path.empty()) {
      candidates_ = {job_.path};
      return Status::ok();
    }
    TRIREME_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> entries, list_checkpoints(job_.directory));
    found_any_ = !entries.empty();
    for (const CatalogEntry& entry : entries) {
      if (entry.status.is_ok()) {
        candidates_.push_back(entry.path);
      } else {
        skip(entry.status);
      }
    }
    return Status::ok();
  }

  Proposal next() {
    while (next_ < candidates_.size()) {
      const std::string& path = candidates_[next_++];
      Proposal proposal{Proposal::Kind::attempt, path, 0, {}};
      const Status status = examine(path, proposal);
      if (status.is_ok()) return proposal;
      if (!passes_over(status)) return failed(status);
    }
    if (!found_any_) return {Proposal::Kind::none, {}, 0, {}};
    std::string all;
    for (const std::string& reason : skipped_) all += (all.empty() ? "" : "; ") + reason;
    return failed(data_loss("no checkpoint in '" + job_.directory + "' is whole: " + all));
  }

  // After an attempt: what to announce now.
  Proposal judge(const std::vector<std::string>& outcomes) {
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      const Status status = decode_status(outcomes[rank]).with_context("rank " + std::to_string(rank));
      if (status.is_ok()) continue;
      return passes_over(status) ? next() : failed(status);
    }
    return {Proposal::Kind::loaded, {}, 0, {}};
  }

  static Proposal failed(const Status& status) { return {Proposal::Kind::failed, {}, 0, status}; }
  std::vector<std::string> take_skipped() { return std::move(skipped_); }

 private:
  Status examine(const std::string& path, Proposal& proposal) const {
    TRIREME_ASSIGN_OR_RETURN(const std::string text, read_manifest_text(path));
    proposal.manifest_hash = hash64(text);
    Result<Manifest> manifest = parse_manifest(text);
    if (!manifest.is_ok()) return manifest.status().with_context("'" + path + "'");
    TRIREME_RETURN_IF_ERROR(check_files(path, *manifest));
    if (job_.options.allow_unread_items) return Status::ok();
    for (const SavedItem& item : manifest->items) {
      if (wanted_.count(item.name) == 0) {
        return mismatch("'" + path + "' holds item '" + item.name +
                        "', which this program would not read: it was "
                        "saved by a different model or optimizer, or allow_unread_items is needed");
      }
    }
    return Status::ok();
  }

  // Whether the next candidate is to be tried after such an error; if so, notes it.
  bool passes_over(const Status& status) {
    const bool damaged = status.code() == StatusCode::data_loss || status.code() == StatusCode::io_error ||
                         status.code() == StatusCode::not_found || status.code() == StatusCode::permission_denied;
    if (!job_.path.empty() || !damaged) return false;
    skip(status);
    return true;
  }

  void skip(const Status& status) {
    TRIREME_LOG_WARN("checkpoint", "passing over a checkpoint: {}", status.to_string());
    skipped_.push_back(status.to_string());
  }

  const LoadJob& job_;
  std::set<std::string> wanted_;
  std::vector<std::string> candidates_;
  std::size_t next_ = 0;
  bool found_any_ = true;
  std::vector<std::string> skipped_;
};

// One rank's attempt at a folder.
Result<CheckpointMetadata> attempt(const Proposal& proposal, const CheckpointState& state) {
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_manifest_text(proposal.path));
  if (hash64(text) != proposal.manifest_hash) {
    return data_loss("'" + proposal.path +
                     "' has another manifest here than on rank 0: the directory must be on "
                     "storage that all ranks share");
  }
  TRIREME_ASSIGN_OR_RETURN(const Manifest manifest, parse_manifest(text));
  TRIREME_RETURN_IF_ERROR(check_state(manifest, state));
  TRIREME_RETURN_IF_ERROR(read_state(proposal.path, manifest, state));
  return manifest.metadata;
}

}  // namespace

Result<std::optional<LoadedCheckpoint>> run_load(Agreement& agreement, const LoadJob& job, CheckpointState& state) {
  TRIREME_ASSIGN_OR_RETURN(const auto names, agreement.gather(job.name + "/names", encode_names(state), job.deadline));
  Chooser chooser(job);
  Proposal proposal;
  if (agreement.is_root()) {
    const Status started = chooser.start(names);
    proposal = started.is_ok() ? chooser.next() : Chooser::failed(started);
  }
  LoadedCheckpoint loaded;
  for (int round = 0;; ++round) {
    const std::string suffix = "/" + std::to_string(round);
    TRIREME_ASSIGN_OR_RETURN(const std::string announced,
                             agreement.announce(job.name + "/choice" + suffix, encode(proposal), job.deadline));
    TRIREME_ASSIGN_OR_RETURN(proposal, decode(announced));
    if (proposal.kind == Proposal::Kind::none) return std::optional<LoadedCheckpoint>();
    if (proposal.kind == Proposal::Kind::failed) return proposal.status;
    if (proposal.kind == Proposal::Kind::loaded) break;
    const Result<CheckpointMetadata> outcome = attempt(proposal, state);
    if (outcome.is_ok()) {
      loaded.path = proposal.path;
      loaded.metadata = *outcome;
    }
    TRIREME_ASSIGN_OR_RETURN(const auto outcomes, agreement.gather(job.name + "/outcome" + suffix,
                                                                   encode_status(outcome.status()), job.deadline));
    if (agreement.is_root()) proposal = chooser.judge(outcomes);
  }
  loaded.skipped = chooser.take_skipped();
  state.metadata = loaded.metadata;
  return std::optional<LoadedCheckpoint>(std::move(loaded));
}

}  // namespace trireme
