#include "collectives/nccl/nccl_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include <fmt/core.h>
#include <trireme/platform/environment.h>

namespace trireme {
namespace {

// The address sanitizer cannot follow a library that looks for symbols in itself first.
#if defined(__SANITIZE_ADDRESS__)
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

std::vector<std::string> candidates() {
  if (const auto named = environment("TRIREME_NCCL_LIBRARY")) return {*named};
  std::vector<std::string> paths;
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/lib/x86_64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib"}) {
    paths.push_back(std::string(folder) + "/libnccl.so.2");
  }
  return paths;
}

template <typename Function>
Status find(void* handle, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function != nullptr) return {};
  return unavailable(fmt::format("{} has no {}: NCCL 2.18 or later is needed", path, name));
}

Status find_all(void* handle, NcclLibrary& l) {
  const auto get = [&](const char* name, auto& function) { return find(handle, l.path, name, function); };
  TRIREME_RETURN_IF_ERROR(get("ncclGetVersion", l.get_version));
  TRIREME_RETURN_IF_ERROR(get("ncclGetUniqueId", l.get_unique_id));
  TRIREME_RETURN_IF_ERROR(get("ncclCommInitRank", l.init_rank));
  TRIREME_RETURN_IF_ERROR(get("ncclCommUserRank", l.user_rank));
  TRIREME_RETURN_IF_ERROR(get("ncclCommCount", l.count));
  TRIREME_RETURN_IF_ERROR(get("ncclCommSplit", l.split));
  TRIREME_RETURN_IF_ERROR(get("ncclCommDestroy", l.destroy));
  TRIREME_RETURN_IF_ERROR(get("ncclCommAbort", l.abort));
  TRIREME_RETURN_IF_ERROR(get("ncclCommGetAsyncError", l.async_error));
  TRIREME_RETURN_IF_ERROR(get("ncclGetErrorString", l.error_string));
  TRIREME_RETURN_IF_ERROR(get("ncclGetLastError", l.last_error));
  TRIREME_RETURN_IF_ERROR(get("ncclAllReduce", l.all_reduce));
  TRIREME_RETURN_IF_ERROR(get("ncclReduce", l.reduce));
  TRIREME_RETURN_IF_ERROR(get("ncclBroadcast", l.broadcast));
  TRIREME_RETURN_IF_ERROR(get("ncclAllGather", l.all_gather));
  TRIREME_RETURN_IF_ERROR(get("ncclReduceScatter", l.reduce_scatter));
  TRIREME_RETURN_IF_ERROR(get("ncclSend", l.send));
  TRIREME_RETURN_IF_ERROR(get("ncclRecv", l.receive));
  TRIREME_RETURN_IF_ERROR(get("ncclGroupStart", l.group_start));
  return get("ncclGroupEnd", l.group_end);
}

Result<const NcclLibrary*> load() {
  std::string looked;
  for (const std::string& path : candidates()) {
    std::error_code ignored;
    if (path.empty() || path.front() != '/' || !std::filesystem::exists(path, ignored)) {
      looked += (looked.empty() ? "" : ", ") + path;
      continue;
    }
    void* handle = ::dlopen(path.c_str(), kFlags);
    if (handle == nullptr) return unavailable(fmt::format("{} cannot be loaded: {}", path, ::dlerror()));
    auto library = std::make_unique<NcclLibrary>();
    library->path = path;
    TRIREME_RETURN_IF_ERROR(find_all(handle, *library));
    (void)library->get_version(&library->version);
    return library.release();  // For the process's life.
  }
  return unavailable(fmt::format(
      "there is no NCCL library (looked for {}): install it, or name it by its absolute path in TRIREME_NCCL_LIBRARY",
      looked));
}

}  // namespace

Result<const NcclLibrary*> load_nccl() {
  static std::mutex mutex;
  static const NcclLibrary* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  TRIREME_ASSIGN_OR_RETURN(loaded, load());
  return loaded;
}

}  // namespace trireme
