#include "tests/numerics/training_run.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace trireme::test {

namespace {

// Of a file that may vanish: a process's.
std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::int64_t process_of_rank(const std::string& argument, int rank) {
  const std::string variable = "TRIREME_RANK=" + std::to_string(rank);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command_line = contents_of(entry.path() / "cmdline");
    if (command_line.find(argument) == std::string::npos) continue;
    const std::string environment = std::string(1, '\0') + contents_of(entry.path() / "environ");
    if (environment.find(std::string(1, '\0') + variable + std::string(1, '\0')) != std::string::npos) {
      return std::atoll(name.c_str());
    }
  }
  return -1;
}

std::vector<std::string> loss_columns(const std::string& metrics_path) {
  std::vector<std::string> columns;
  std::ifstream file(metrics_path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find("\"loss\":"), end = line.find(",\"lr\":");
    columns.push_back(begin < end && end != std::string::npos ? line.substr(begin, end - begin)
                                                              : "unreadable: " + line);
  }
  return columns;
}

std::vector<double> losses(const std::string& metrics_path) {
  std::vector<double> values;
  for (const std::string& columns : loss_columns(metrics_path)) {
    values.push_back(std::strtod(columns.c_str() + std::string("\"loss\":").size(), nullptr));
  }
  return values;
}

}  // namespace trireme::test
