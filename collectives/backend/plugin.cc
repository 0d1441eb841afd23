#include "collectives/backend/plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include <fmt/core.h>
#include <trireme/platform/environment.h>

namespace trireme {
namespace {

namespace fs = std::filesystem;

// From the folder of the library or program that holds this code: beside an installed
// library, from bin, from libexec/trireme or the build's tests.
constexpr const char* kPlaces[] = {
    "trireme",
    "../lib/trireme",
    "../" TRIREME_LIBDIR "/trireme",
    "../../lib/trireme",
    "../../" TRIREME_LIBDIR "/trireme",
};

void add_folders_of(const fs::path& holder, std::vector<std::string>& folders) {
  for (const char* place : kPlaces) folders.push_back((holder.parent_path() / place).lexically_normal().string());
}

}  // namespace

std::vector<std::string> plugin_folders() {
  std::vector<std::string> folders;
  if (const auto folder = environment("TRIREME_BACKEND_FOLDER")) folders.push_back(*folder);
  Dl_info self{};
  std::error_code ignored;
  if (::dladdr(reinterpret_cast<void*>(&plugin_folders), &self) != 0 && self.dli_fname != nullptr) {
    const fs::path path = fs::canonical(self.dli_fname, ignored);
    if (!path.empty()) add_folders_of(path, folders);
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) add_folders_of(program, folders);
  return folders;
}

Result<void*> load_plugin(const std::string& file, const char* symbol) {
  std::string looked;
  for (const std::string& folder : plugin_folders()) {
    const std::string path = folder + "/" + file;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      looked += (looked.empty() ? "" : ", ") + folder;
      continue;
    }
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (library == nullptr) return unavailable(fmt::format("{} cannot be loaded: {}", path, ::dlerror()));
    void* found = ::dlsym(library, symbol);
    if (found == nullptr) return unavailable(fmt::format("{} has no {}: it is of another version", path, symbol));
    return found;
  }
  return unavailable(
      fmt::format("{} is not installed (looked in {}; TRIREME_BACKEND_FOLDER names another folder)", file, looked));
}

}  // namespace trireme
