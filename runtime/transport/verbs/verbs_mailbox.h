// The mailbox of one port: datagrams of at most kVerbsDatagramBytes to and from the
// mailboxes of other ranks, by which they join their queue pairs. A datagram may be lost.
// Thread safety: everything after create() runs on the service thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/transport/verbs/verbs_blocks.h"

namespace trireme {

class VerbsMailbox final : public VerbsListener, public std::enable_shared_from_this<VerbsMailbox> {
 public:
  using Deliver = std::function<void(std::string_view datagram)>;

  // `key` must be known to who sends here. `deliver` may be called as soon as start() is.
  static Result<std::shared_ptr<VerbsMailbox>> create(std::shared_ptr<VerbsDevice> device, const VerbsPortInfo& port,
                                                      std::uint32_t key, Deliver deliver);
  ~VerbsMailbox() override;
  void start();
  std::uint32_t address() const { return queue_pair_->qp_num; }

  // To the mailbox of `port`, from our `own_gid` to `port_gid`.
  void send(const RdmaGid& own_gid, const VerbsPortInfo& port, const RdmaGid& port_gid, std::uint32_t key,
            std::string_view datagram);

  void on_completion() override;
  void on_device_lost(const std::string&, int, const Status&) override {}  // The channels see it.

 private:
  VerbsMailbox(std::shared_ptr<VerbsDevice> device, const VerbsPortInfo& port, std::uint32_t key, Deliver deliver)
      : device_(std::move(device)), port_(port), key_(key), deliver_(std::move(deliver)) {}
  Status set_up();
  Status make_ready();
  void poll();
  void post_receive(std::size_t slot);
  ibv_ah* route(const RdmaGid& own_gid, const VerbsPortInfo& port, const RdmaGid& port_gid);
  std::byte* slot_memory(std::size_t slot) const;

  std::shared_ptr<VerbsDevice> device_;
  VerbsPortInfo port_;
  std::uint32_t key_;
  Deliver deliver_;
  std::unique_ptr<VerbsBlock> memory_;  // Slots to receive into, then slots to send from.
  ibv_cq* queue_ = nullptr;
  ibv_qp* queue_pair_ = nullptr;
  std::vector<std::size_t> free_slots_;  // To send from.
  std::map<std::tuple<std::uint32_t, std::array<std::uint8_t, 16>, std::uint16_t>, ibv_ah*> routes_;
};

// The address vector from a port to a peer's port, for datagrams and queue pairs alike.
ibv_ah_attr verbs_route(const VerbsPortInfo& own, const RdmaGid& own_gid, const VerbsPortInfo& peer,
                        const RdmaGid& peer_gid);

}  // namespace trireme
