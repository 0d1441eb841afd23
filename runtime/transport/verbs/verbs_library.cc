#include "runtime/transport/verbs/verbs_library.h"

#include <dlfcn.h>

#include <string>

namespace trireme {
namespace {

// ibv_query_port is an inline function of the headers over this symbol.
using QueryPortSymbol = int (*)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*);
QueryPortSymbol compatible_query_port(QueryPortSymbol loaded = nullptr) {
  static const QueryPortSymbol symbol = loaded;
  return symbol;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  verbs_context* extended = verbs_get_ctx_op(context, query_port);
  if (extended != nullptr) return extended->query_port(context, port, attributes, sizeof *attributes);
  *attributes = {};
  return compatible_query_port()(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

class Loader {
 public:
  explicit Loader(void* library) : library_(library) {}
  template <typename Function>
  Loader& find(const char* name, Function& function, bool required = true) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && required && missing_.empty()) missing_ = name;
    return *this;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string load(VerbsLibrary& verbs, Loader loader) {
  QueryPortSymbol query = nullptr;
  loader.find("ibv_fork_init", verbs.fork_init)
      .find("ibv_get_device_list", verbs.get_device_list)
      .find("ibv_free_device_list", verbs.free_device_list)
      .find("ibv_get_device_name", verbs.get_device_name)
      .find("ibv_open_device", verbs.open_device)
      .find("ibv_close_device", verbs.close_device)
      .find("ibv_query_port", query)
      .find("_ibv_query_gid_table", verbs.query_gid_table)
      .find("ibv_alloc_pd", verbs.alloc_pd)
      .find("ibv_dealloc_pd", verbs.dealloc_pd)
      .find("ibv_reg_mr", verbs.reg_mr)
      .find("ibv_reg_dmabuf_mr", verbs.reg_dmabuf_mr, false)
      .find("ibv_dereg_mr", verbs.dereg_mr)
      .find("ibv_create_comp_channel", verbs.create_comp_channel)
      .find("ibv_destroy_comp_channel", verbs.destroy_comp_channel)
      .find("ibv_create_cq", verbs.create_cq)
      .find("ibv_destroy_cq", verbs.destroy_cq)
      .find("ibv_get_cq_event", verbs.get_cq_event)
      .find("ibv_ack_cq_events", verbs.ack_cq_events)
      .find("ibv_create_qp", verbs.create_qp)
      .find("ibv_modify_qp", verbs.modify_qp)
      .find("ibv_destroy_qp", verbs.destroy_qp)
      .find("ibv_create_ah", verbs.create_ah)
      .find("ibv_destroy_ah", verbs.destroy_ah)
      .find("ibv_get_async_event", verbs.get_async_event)
      .find("ibv_ack_async_event", verbs.ack_async_event)
      .find("ibv_event_type_str", verbs.event_type_str)
      .find("ibv_wc_status_str", verbs.wc_status_str);
  compatible_query_port(query);
  verbs.query_port = query_port;
  return loader.missing();
}

struct Loaded {
  VerbsLibrary verbs;
  Status status;

  Loaded() {
    // Never unloaded: the providers it loads in turn do not survive that.
    void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      status = unavailable("no RDMA: libibverbs.so.1 is not installed (packages libibverbs1, ibverbs-providers)");
      return;
    }
    const std::string missing = load(verbs, Loader(library));
    if (!missing.empty()) {
      status = unavailable("no RDMA: the installed libibverbs has no " + missing + "; rdma-core 32 or later is needed");
    } else if (const int error = verbs.fork_init(); error != 0) {
      status = errno_status(error, "ibv_fork_init: without it a fork would corrupt RDMA buffers");
    }
  }
};

}  // namespace

Result<const VerbsLibrary*> VerbsLibrary::system() {
  static const Loaded loaded;
  if (!loaded.status.is_ok()) return loaded.status;
  return &loaded.verbs;
}

}  // namespace trireme
