// The [run] table of a TOML file.
#include <fmt/core.h>

#include <toml++/toml.h>
#include <algorithm>
#include <sstream>

#include "launcher/cli/near_matches.h"
#include "launcher/cli/run_options.h"
#include "runtime/platform/api/files.h"

namespace trireme {
namespace {

std::string place(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : run_settings()) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : run_settings()) names.emplace_back(setting.name);
  return names;
}

// A setting's text as a flag would give it.
Result<std::string> scalar_text(const std::string& where, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  return invalid_argument(where + ": expected a string, a number, true or false");
}

Status add_setting(const std::string& path, std::string_view name, const toml::node& node, SettingValues& values) {
  const std::string where = place(path, node);
  const Setting* setting = find_setting(name);
  if (setting == nullptr) {
    return invalid_argument(
        fmt::format("{}: there is no setting '{}'{}", where, name, did_you_mean(name, setting_names())));
  }
  std::vector<SettingValue>& list = values[std::string(name)];
  const toml::array* array = node.as_array();
  if (array == nullptr || !setting->repeatable) {
    TRIREME_ASSIGN_OR_RETURN(std::string text, scalar_text(where, node));
    list.push_back({std::move(text), where});
    return Status::ok();
  }
  for (const toml::node& element : *array) {
    TRIREME_ASSIGN_OR_RETURN(std::string text, scalar_text(place(path, element), element));
    list.push_back({std::move(text), place(path, element)});
  }
  return Status::ok();
}

Result<toml::table> parse(const std::string& path, const std::string& text) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return invalid_argument(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

}  // namespace

Result<SettingValues> read_run_config(const std::string& path) {
  TRIREME_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  TRIREME_ASSIGN_OR_RETURN(const toml::table file, parse(path, text));
  SettingValues values;
  for (const auto& [key, node] : file) {
    if (key.str() != "run" || !node.is_table()) {
      return invalid_argument(
          fmt::format("{}: expected the table [run] only, found '{}'", place(path, node), key.str()));
    }
    for (const auto& [name, value] : *node.as_table()) {
      TRIREME_RETURN_IF_ERROR(add_setting(path, name.str(), value, values));
    }
  }
  return values;
}

}  // namespace trireme
