#include "runtime/transport/verbs/verbs_mailbox.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <fmt/core.h>

namespace trireme {
namespace {

constexpr std::size_t kReceiveSlots = 128;
constexpr std::size_t kSendSlots = 64;
constexpr std::size_t kRouteHeaderBytes = 40;  // What precedes every received datagram.
constexpr std::size_t kSlotBytes = 320;
static_assert(kSlotBytes >= kRouteHeaderBytes + kVerbsDatagramBytes);

}  // namespace

ibv_ah_attr verbs_route(const VerbsPortInfo& own, const RdmaGid& own_gid, const VerbsPortInfo& peer,
                        const RdmaGid& peer_gid) {
  ibv_ah_attr route{};
  route.port_num = own.port;
  route.dlid = peer.lid;
  route.is_global = own.ethernet ? 1 : 0;
  if (own.ethernet) {
    std::memcpy(route.grh.dgid.raw, peer_gid.bytes.data(), peer_gid.bytes.size());
    route.grh.sgid_index = static_cast<std::uint8_t>(own_gid.index);
    route.grh.hop_limit = 64;
  }
  return route;
}

Result<std::shared_ptr<VerbsMailbox>> VerbsMailbox::create(std::shared_ptr<VerbsDevice> device,
                                                           const VerbsPortInfo& port, std::uint32_t key,
                                                           Deliver deliver) {
  std::shared_ptr<VerbsMailbox> mailbox(new VerbsMailbox(std::move(device), port, key, std::move(deliver)));
  TRIREME_RETURN_IF_ERROR(mailbox->set_up());
  return mailbox;
}

Status VerbsMailbox::set_up() {
  memory_ = std::make_unique<VerbsBlock>();
  const std::size_t bytes = (kReceiveSlots + kSendSlots) * kSlotBytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_status(errno, "mmap for the mailbox of " + port_.name());
  memory_->memory = static_cast<std::byte*>(memory);
  memory_->bytes = bytes;
  TRIREME_ASSIGN_OR_RETURN(ibv_mr * region, device_->register_memory(memory, bytes));
  memory_->regions.emplace_back(device_, region);
  TRIREME_ASSIGN_OR_RETURN(queue_,
                           device_->create_queue(static_cast<int>(kReceiveSlots + kSendSlots), weak_from_this()));
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = queue_;
  attributes.qp_type = IBV_QPT_UD;
  attributes.sq_sig_all = 1;
  attributes.cap.max_send_wr = kSendSlots;
  attributes.cap.max_recv_wr = kReceiveSlots;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  queue_pair_ = device_->verbs().create_qp(device_->domain(), &attributes);
  if (queue_pair_ == nullptr) return errno_status(errno, "ibv_create_qp (datagrams) on " + port_.name());
  TRIREME_RETURN_IF_ERROR(make_ready());
  for (std::size_t slot = 0; slot < kReceiveSlots; ++slot) post_receive(slot);
  for (std::size_t slot = 0; slot < kSendSlots; ++slot) free_slots_.push_back(kReceiveSlots + slot);
  return Status::ok();
}

Status VerbsMailbox::make_ready() {
  const auto& verbs = device_->verbs();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_.port;
  attributes.qkey = key_;
  int error = verbs.modify_qp(queue_pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attributes.qp_state = IBV_QPS_RTR;
  if (error == 0) error = verbs.modify_qp(queue_pair_, &attributes, IBV_QP_STATE);
  attributes.qp_state = IBV_QPS_RTS;
  if (error == 0) error = verbs.modify_qp(queue_pair_, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
  return error == 0 ? Status::ok() : errno_status(error, "ibv_modify_qp (datagrams) on " + port_.name());
}

VerbsMailbox::~VerbsMailbox() {
  const auto& verbs = device_->verbs();
  if (queue_pair_ != nullptr) verbs.destroy_qp(queue_pair_);
  for (const auto& [key, handle] : routes_) verbs.destroy_ah(handle);
  if (queue_ != nullptr) device_->destroy_queue(queue_);
}

void VerbsMailbox::start() {
  on_completion();
}

std::byte* VerbsMailbox::slot_memory(std::size_t slot) const {
  return memory_->memory + slot * kSlotBytes;
}

void VerbsMailbox::post_receive(std::size_t slot) {
  ibv_sge piece{reinterpret_cast<std::uint64_t>(slot_memory(slot)), kSlotBytes, memory_->regions.front().second->lkey};
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  // The queue holds all slots; a device that refuses is lost, which the channels see.
  [[maybe_unused]] const int error = ibv_post_recv(queue_pair_, &request, &refused);
}

void VerbsMailbox::poll() {
  std::array<ibv_wc, 16> completions;
  int count = 0;
  while ((count = ibv_poll_cq(queue_, completions.size(), completions.data())) > 0) {
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      const std::size_t slot = completion.wr_id;
      if (slot >= kReceiveSlots) {
        free_slots_.push_back(slot);
        continue;
      }
      if (completion.status != IBV_WC_SUCCESS) continue;
      if (completion.byte_len > kRouteHeaderBytes && completion.byte_len <= kSlotBytes) {
        deliver_({reinterpret_cast<const char*>(slot_memory(slot)) + kRouteHeaderBytes,
                  completion.byte_len - kRouteHeaderBytes});
      }
      post_receive(slot);
    }
  }
}

void VerbsMailbox::on_completion() {
  // Armed before the last look: what comes after it makes an event.
  ibv_req_notify_cq(queue_, 0);
  poll();
}

ibv_ah* VerbsMailbox::route(const RdmaGid& own_gid, const VerbsPortInfo& port, const RdmaGid& port_gid) {
  ibv_ah*& handle = routes_[{own_gid.index, port_gid.bytes, port.lid}];
  if (handle == nullptr) {
    ibv_ah_attr attributes = verbs_route(port_, own_gid, port, port_gid);
    handle = device_->verbs().create_ah(device_->domain(), &attributes);
  }
  return handle;
}

void VerbsMailbox::send(const RdmaGid& own_gid, const VerbsPortInfo& port, const RdmaGid& port_gid, std::uint32_t key,
                        std::string_view datagram) {
  if (free_slots_.empty()) poll();
  ibv_ah* handle = route(own_gid, port, port_gid);
  // Senders repeat what is not answered, and say at last that nothing was.
  if (free_slots_.empty() || handle == nullptr) return;
  const std::size_t slot = free_slots_.back();
  free_slots_.pop_back();
  std::memcpy(slot_memory(slot), datagram.data(), datagram.size());
  ibv_sge piece{reinterpret_cast<std::uint64_t>(slot_memory(slot)), static_cast<std::uint32_t>(datagram.size()),
                memory_->regions.front().second->lkey};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = handle;
  request.wr.ud.remote_qpn = port.mailbox_qp;
  request.wr.ud.remote_qkey = key;
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(queue_pair_, &request, &refused) != 0) free_slots_.push_back(slot);
}

}  // namespace trireme
