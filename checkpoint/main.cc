// trireme checkpoint list|show|verify: what is in a directory of checkpoints.
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <trireme/base/units.h>

#include "checkpoint/catalog.h"
#include "checkpoint/directory.h"
#include "checkpoint/reader.h"
#include "runtime/platform/api/console.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme checkpoint list run/checkpoints                        one line for each, newest first\n"
    "  trireme checkpoint show run/checkpoints                        the newest valid one: items, files, metadata\n"
    "  trireme checkpoint verify run/checkpoints/step-00000120        every checksum\n"
    "Exit code: 0 all right; 1 something is damaged; 2 the command line needs a change.";

using nlohmann::json;

json summary(const CatalogEntry& entry) {
  json value = {{"path", entry.path}, {"step", entry.step}, {"valid", entry.status.is_ok()}};
  if (!entry.status.is_ok()) value["error"] = entry.status.to_string();
  if (!entry.has_manifest) return value;
  value["epoch"] = entry.manifest.metadata.epoch;
  value["generation"] = entry.manifest.generation;
  value["job"] = entry.manifest.job_id;
  value["wall_ms"] = entry.manifest.wall_ms;
  value["ranks"] = entry.manifest.files.size();
  value["items"] = entry.manifest.items.size();
  value["bytes"] = total_bytes(entry.manifest);
  return value;
}

// Prints one entry a line, or the list as JSON. 0 when every entry is valid.
int print_entries(const std::vector<CatalogEntry>& entries, bool as_json) {
  bool all_valid = true;
  json list = json::array();
  for (const CatalogEntry& entry : entries) {
    all_valid = all_valid && entry.status.is_ok();
    if (as_json) {
      list.push_back(summary(entry));
    } else if (entry.status.is_ok()) {
      print_out(fmt::format("{}  step {}  {} ranks  {} items  {}  ok\n", entry.path, entry.step,
                            entry.manifest.files.size(), entry.manifest.items.size(),
                            format_bytes(total_bytes(entry.manifest))));
    } else {
      print_out(fmt::format("{}  step {}  {}\n", entry.path, entry.step, entry.status.to_string()));
    }
  }
  if (as_json) print_out(fmt::format("{}\n", list.dump(1)));
  if (!as_json && entries.empty()) print_out("no checkpoints\n");
  return all_valid ? 0 : 1;
}

int fail(const Status& status) {
  print_error(fmt::format("trireme checkpoint: {}\n", status.to_string()));
  return exit_code(status.code());
}

// The checkpoints that a path means: the folder itself, or those inside it.
Result<std::vector<CatalogEntry>> entries_of(const std::string& path) {
  TRIREME_ASSIGN_OR_RETURN(const FileInfo info, file_info(path));
  if (!info.exists) return not_found("there is no '" + path + "'");
  TRIREME_ASSIGN_OR_RETURN(const FileInfo manifest, file_info(path + "/" + std::string(kManifestName)));
  if (!manifest.exists) return list_checkpoints(path);
  CatalogEntry entry;
  entry.path = path;
  Result<Manifest> opened = open_checkpoint(path);
  entry.status = opened.status();
  entry.has_manifest = opened.is_ok();
  if (opened.is_ok()) entry.manifest = std::move(*opened);
  entry.step = entry.manifest.metadata.step;
  std::vector<CatalogEntry> entries;
  entries.push_back(std::move(entry));
  return entries;
}

int list(const std::string& path, bool as_json) {
  const auto entries = entries_of(path);
  if (!entries.is_ok()) return fail(entries.status());
  print_entries(*entries, as_json);
  return 0;
}

int verify(const std::string& path, bool as_json) {
  auto entries = entries_of(path);
  if (!entries.is_ok()) return fail(entries.status());
  for (CatalogEntry& entry : *entries) {
    if (entry.status.is_ok()) entry.status = verify_contents(entry.path, entry.manifest);
  }
  return print_entries(*entries, as_json);
}

// The newest valid one, when the path is a directory of several.
int show(const std::string& path, bool as_json) {
  const auto entries = entries_of(path);
  if (!entries.is_ok()) return fail(entries.status());
  const CatalogEntry* shown = nullptr;
  for (const CatalogEntry& entry : *entries) {
    if (shown == nullptr && entry.status.is_ok()) shown = &entry;
  }
  if (shown == nullptr) {
    return fail(entries->empty() ? not_found("no checkpoint in '" + path + "'") : entries->front().status);
  }
  const Manifest& manifest = shown->manifest;
  if (as_json) {
    const Result<std::string> text = read_manifest_text(shown->path);
    if (!text.is_ok()) return fail(text.status());
    print_out(*text);
    return 0;
  }
  const CheckpointMetadata& metadata = manifest.metadata;
  print_out(
      fmt::format("{}\nstep {}, epoch {}, job '{}', generation {}\ndata position {}, random seed {}, counter {}\n",
                  shown->path, metadata.step, metadata.epoch, manifest.job_id, manifest.generation,
                  metadata.data_position, metadata.random_seed, metadata.random_counter));
  for (const auto& [key, value] : metadata.values) print_out(fmt::format("{} = {}\n", key, value));
  for (const SavedFile& file : manifest.files)
    print_out(fmt::format("file {}  {}\n", file.name, format_bytes(file.bytes)));
  for (const SavedItem& item : manifest.items) {
    print_out(fmt::format("item {}  {} {}  {} parts\n", item.name, to_string(item.type), item.shape.to_string(),
                          item.parts.size()));
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Looks at a directory of checkpoints, or at one checkpoint.", "trireme checkpoint");
  app.require_subcommand(1);
  app.footer(kExamples);
  std::string path;
  bool as_json = false;
  const auto add = [&](const char* name, const char* description) {
    CLI::App* command = app.add_subcommand(name, description);
    command->add_option("DIR", path, "A directory of checkpoints, or one checkpoint's folder")->required();
    command->add_flag("--json", as_json, "Print JSON");
    return command;
  };
  const CLI::App* list_command = add("list", "One line per checkpoint, newest first");
  const CLI::App* verify_command =
      add("verify", "Reads everything and checks every checksum; exit code 1 when one fails");
  add("show", "Items, files and metadata of one checkpoint (the newest valid one)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (list_command->parsed()) return list(path, as_json);
  if (verify_command->parsed()) return verify(path, as_json);
  return show(path, as_json);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::code_after_output(trireme::run(argc, argv));
}
