#include "runtime/rendezvous/pmix_exchange.h"

#include <dlfcn.h>
#include <pmix.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include <fmt/core.h>

// Present when the program is built with the address sanitizer.
extern "C" {
__attribute__((weak)) void __lsan_disable();
__attribute__((weak)) void __lsan_enable();
}

namespace trireme::store {
namespace {

// libpmix loses a few bytes at every start (its own name and namespace), which a leak
// checker would report as ours. What this thread allocates in libpmix is not checked.
class ForeignAllocations {
 public:
  ForeignAllocations() {
    if (__lsan_disable != nullptr) __lsan_disable();
  }
  ~ForeignAllocations() {
    if (__lsan_enable != nullptr) __lsan_enable();
  }
  ForeignAllocations(const ForeignAllocations&) = delete;
  ForeignAllocations& operator=(const ForeignAllocations&) = delete;
};

constexpr const char* kLibrary = "libpmix.so.2";
constexpr const char* kKey = "trireme.store";

// The functions of libpmix that we use. The library stays loaded for the process's life:
// it leaves thread-local data behind that must not lose its code.
struct Library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

template <typename Function>
Status find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function != nullptr) return Status::ok();
  return unavailable(fmt::format("{} has no {}: another version is needed", kLibrary, name));
}

Result<Library> load() {
  void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (handle == nullptr) {
    return unavailable(
        fmt::format("PMIX_NAMESPACE is set, so mpirun or srun started this program, but {} cannot be "
                    "loaded, by which its ranks meet ({}): install libpmix2, or start the program by "
                    "`trireme run`",
                    kLibrary, ::dlerror()));
  }
  Library library;
  TRIREME_RETURN_IF_ERROR(find(handle, "PMIx_Init", library.init));
  TRIREME_RETURN_IF_ERROR(find(handle, "PMIx_Put", library.put));
  TRIREME_RETURN_IF_ERROR(find(handle, "PMIx_Commit", library.commit));
  TRIREME_RETURN_IF_ERROR(find(handle, "PMIx_Fence", library.fence));
  TRIREME_RETURN_IF_ERROR(find(handle, "PMIx_Get", library.get));
  TRIREME_RETURN_IF_ERROR(find(handle, "PMIx_Error_string", library.error_string));
  return library;
}

// Undoes one PMIx_Init when the process exits, and not before: PMIx counts its users, and
// once the count falls to zero an MPI_Init of the program could not start it again; while
// a process that ends without it makes mpirun call the whole job aborted. A child that a
// rank forked must leave its parent's connection alone.
void finalize_at_exit() {
  static const pid_t initialised_in = ::getpid();
  std::atexit([] {
    void* handle = ::getpid() == initialised_in ? ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    if (handle == nullptr) return;
    decltype(&PMIx_Finalize) finalize = nullptr;
    if (find(handle, "PMIx_Finalize", finalize).is_ok()) finalize(nullptr, 0);
  });
}

class Session {
 public:
  static Result<Session> start(const Library& library) {
    Session session(library);
    const ForeignAllocations unchecked;
    TRIREME_RETURN_IF_ERROR(session.check(library.init(&session.self_, nullptr, 0), "PMIx_Init"));
    finalize_at_exit();
    return session;
  }
  int rank() const { return static_cast<int>(self_.rank); }

  Result<int> job_number(const char* key) const {
    TRIREME_ASSIGN_OR_RETURN(pmix_value_t * value, fetch(PMIX_RANK_WILDCARD, key));
    const bool known = value->type == PMIX_UINT32;
    const std::uint32_t number = known ? value->data.uint32 : 0;
    release(value);
    if (!known || number < 1) return io_error(fmt::format("PMIx_Get({}) gave no count", key));
    return static_cast<int>(number);
  }

  Status publish(const std::string& text) const {
    pmix_value_t value;
    std::memset(&value, 0, sizeof(value));
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(text.c_str());  // PMIx_Put copies.
    TRIREME_RETURN_IF_ERROR(check(library_.put(PMIX_GLOBAL, kKey, &value), "PMIx_Put"));
    return check(library_.commit(), "PMIx_Commit");
  }

  // All ranks have published, and what they published is everywhere.
  Status fence() const {
    pmix_info_t collect;
    std::memset(&collect, 0, sizeof(collect));
    std::strncpy(collect.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    return check(library_.fence(nullptr, 0, &collect, 1), "PMIx_Fence");
  }

  Result<std::string> read_published() const {
    TRIREME_ASSIGN_OR_RETURN(pmix_value_t * value, fetch(0, kKey));
    std::string text;
    if (value->type == PMIX_STRING && value->data.string != nullptr) {
      text = value->data.string;
      std::free(value->data.string);
    }
    release(value);
    if (text.empty()) return io_error("PMIx_Get of rank 0's store address gave no text");
    return text;
  }

 private:
  explicit Session(const Library& library) : library_(library) { std::memset(&self_, 0, sizeof(self_)); }

  Status check(pmix_status_t status, const char* call) const {
    if (status == PMIX_SUCCESS) return Status::ok();
    return io_error(fmt::format("{}: {} ({}); the ranks cannot meet", call, library_.error_string(status), status));
  }

  Result<pmix_value_t*> fetch(pmix_rank_t rank, const char* key) const {
    pmix_proc_t proc = self_;
    proc.rank = rank;
    pmix_value_t* value = nullptr;
    const ForeignAllocations unchecked;
    TRIREME_RETURN_IF_ERROR(check(library_.get(&proc, key, nullptr, 0, &value), "PMIx_Get"));
    if (value == nullptr) return io_error(fmt::format("PMIx_Get({}) gave nothing", key));
    return value;
  }
  static void release(pmix_value_t* value) { std::free(value); }

  Library library_;
  pmix_proc_t self_;
};

}  // namespace

Result<std::string> pmix_share(PmixPlace& place, const std::function<Result<std::string>()>& publish) {
  TRIREME_ASSIGN_OR_RETURN(const Library library, load());
  TRIREME_ASSIGN_OR_RETURN(const Session session, Session::start(library));
  place.rank = session.rank();
  TRIREME_ASSIGN_OR_RETURN(place.size, session.job_number(PMIX_JOB_SIZE));
  TRIREME_ASSIGN_OR_RETURN(place.local_size, session.job_number(PMIX_LOCAL_SIZE));
  if (place.rank == 0) {
    const Result<std::string> text = publish();
    // "+text" or "-error": an error must reach those who wait in the fence too.
    const std::string shared = text.is_ok() ? "+" + *text : "-" + text.status().message();
    TRIREME_RETURN_IF_ERROR(session.publish(shared));
    TRIREME_RETURN_IF_ERROR(session.fence());
    return text;
  }
  TRIREME_RETURN_IF_ERROR(session.fence());
  TRIREME_ASSIGN_OR_RETURN(const std::string shared, session.read_published());
  if (shared[0] != '+') return unavailable("rank 0 cannot host the job's store: " + shared.substr(1));
  return shared.substr(1);
}

}  // namespace trireme::store
