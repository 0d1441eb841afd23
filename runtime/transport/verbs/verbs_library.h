// The functions of libibverbs, loaded at run time: one binary works on machines with and
// without it, and tests put a device of their own in its place.
//
// What the headers define as inline functions (posting, polling) goes through the tables
// of the device's context and is called directly.
// Thread safety: values; the functions are as thread-safe as libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <trireme/base/status.h>

namespace trireme {

struct VerbsLibrary {
  decltype(&ibv_fork_init) fork_init = nullptr;
  decltype(&ibv_get_device_list) get_device_list = nullptr;
  decltype(&ibv_free_device_list) free_device_list = nullptr;
  decltype(&ibv_get_device_name) get_device_name = nullptr;
  decltype(&ibv_open_device) open_device = nullptr;
  decltype(&ibv_close_device) close_device = nullptr;
  int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) = nullptr;
  // -errno, or the number of entries written.
  decltype(&_ibv_query_gid_table) query_gid_table = nullptr;
  decltype(&ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&ibv_reg_mr) reg_mr = nullptr;
  decltype(&ibv_reg_dmabuf_mr) reg_dmabuf_mr = nullptr;  // Null before rdma-core 34.
  decltype(&ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&ibv_create_cq) create_cq = nullptr;
  decltype(&ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&ibv_create_qp) create_qp = nullptr;
  decltype(&ibv_modify_qp) modify_qp = nullptr;
  decltype(&ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&ibv_create_ah) create_ah = nullptr;
  decltype(&ibv_destroy_ah) destroy_ah = nullptr;
  decltype(&ibv_get_async_event) get_async_event = nullptr;
  decltype(&ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&ibv_event_type_str) event_type_str = nullptr;
  decltype(&ibv_wc_status_str) wc_status_str = nullptr;

  // The system's, loaded once and made fork-safe (ibv_fork_init: what is registered is
  // kept out of forked children where the kernel cannot copy it).
  // Errors: unavailable naming what is missing.
  static Result<const VerbsLibrary*> system();
};

}  // namespace trireme
