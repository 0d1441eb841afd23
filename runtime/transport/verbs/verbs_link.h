// VerbsLink: one channel's queue pairs, rings and stream, shared by the channel and the
// service thread. It exists from the opening of its channel, before there is a peer (what
// is sent meanwhile waits in the send ring), and outlives the channel until everything
// sent has reached the peer's memory.
//
// A block of memory holds the ring the peer writes to, then the ring we send from.
// Thread safety: all methods; one mutex.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <trireme/rendezvous/world.h>

#include "runtime/transport/verbs/verbs_blocks.h"
#include "runtime/transport/verbs/verbs_flow.h"
#include "runtime/transport/verbs/verbs_registrations.h"
#include "runtime/transport/verbs/verbs_wire.h"

namespace trireme {

// One end of a rail, fixed before the peer has come.
struct VerbsRailEnd {
  std::shared_ptr<VerbsDevice> device;
  VerbsPortInfo own;
  VerbsPortInfo peer;
  RdmaGid own_gid;
  RdmaGid peer_gid;
  std::uint8_t mtu = 0;
};

struct VerbsLinkOptions {
  std::vector<VerbsRailEnd> rails;
  std::shared_ptr<VerbsBlock> block;  // Twice ring_bytes.
  std::size_t ring_bytes = 0;
  std::shared_ptr<VerbsRegistrations> registrations;
  std::string peer;             // "rank 3 (node1, pid 4711)", for messages.
  bool first_to_speak = false;  // The lower rank.
  int polls_before_sleep = 0;   // Calls that look for completions before one asks to be woken.
  std::function<void()> ring_doorbell;
};

class VerbsLink final : public VerbsListener, public std::enable_shared_from_this<VerbsLink> {
 public:
  explicit VerbsLink(VerbsLinkOptions options);
  ~VerbsLink() override;

  // Makes the queue pairs. Errors: resource_exhausted and what the device says.
  Status set_up();
  // What the peer must know; rails, ring.
  void describe(VerbsHello& hello) const;
  // The peer is there. Errors: mismatch when it has another number of rails; what the
  // device says. The link has failed then, too.
  Status connect(const VerbsHello& peer);
  void fail(Status error);

  // As in Channel.
  std::span<std::byte> reserve();
  void commit(std::size_t bytes);
  // nullopt: not worth it or not possible; to be copied.
  std::optional<std::size_t> send_in_place(std::span<const std::byte> data);
  std::span<const std::byte> peek();
  void consume(std::size_t bytes);
  bool progress();
  bool drained();
  Status error();
  bool ended();

  // The channel is gone: sends what is staged, tells the peer, and calls `finished` once,
  // at once or on the service thread, when there is nothing left to do.
  void close(std::function<void()> finished);
  // Gives up on a closed channel, whose peer is known to be gone.
  void give_up();
  // Closed, but its bytes are on their way.
  bool lingers();

  void on_completion() override;
  void on_device_lost(const std::string& device, int port, const Status& why) override;

 private:
  struct Rail {
    VerbsRailEnd end;
    ibv_cq* queue = nullptr;
    ibv_qp* pair = nullptr;
    std::uint32_t first_packet = 0;
    std::uint32_t peer_ring_key = 0;
    bool heard = false;  // The peer's end is ready.
  };

  // All below: REQUIRES mutex_ held.
  Status make_pair(Rail& rail);
  Status join(Rail& rail, const VerbsHello::Rail& peer);
  bool poll();
  void take(std::size_t index, const ibv_wc& completion);
  void take_message(std::size_t index, std::uint32_t immediate, std::uint32_t bytes);
  void take_error(const Rail& rail, const ibv_wc& completion);
  Status explain(const Rail& rail, const ibv_wc& completion) const;
  void push();
  std::size_t stage_from_gpu(std::span<const std::byte> data);
  void post_fragment(const VerbsFragment& fragment, const std::byte* source, std::uint32_t key);
  void post_control(std::size_t rail, VerbsMessageKind kind, std::uint64_t value);
  void post(std::size_t rail, ibv_send_wr& request);
  void post_receive(Rail& rail);
  void pay_credit();
  void arm();
  void wait_for_news();
  void break_with(Status error);
  bool usable() const { return connected_ && error_.is_ok() && !receive_.peer_closed(); }
  // Takes the callback that close() left, once there is nothing more to do.
  std::function<void()> try_finish();
  std::byte* receive_ring() const { return options_.block->memory; }
  std::byte* send_ring() const { return options_.block->memory + options_.ring_bytes; }

  std::mutex mutex_;
  VerbsLinkOptions options_;
  std::vector<Rail> rails_;
  VerbsSendFlow send_;
  VerbsReceiveFlow receive_;
  std::uint64_t peer_ring_address_ = 0;
  std::uint64_t peer_ring_bytes_ = 0;
  bool joined_ = false;     // Our queue pairs know the peer's.
  bool connected_ = false;  // And the peer's know ours.
  bool armed_ = false;
  bool ended_ = false;
  bool close_sent_ = false;
  bool given_up_ = false;
  int polls_left_ = 0;
  int controls_open_ = 0;
  std::uint64_t seen_tail_ = 0;  // What peek() has shown.
  std::uint64_t seen_room_ = 0;  // What reserve() has shown.
  Status error_;
  // What fragments under way are read from, by number, when that is not the send ring.
  std::vector<std::shared_ptr<VerbsRegistration>> sources_;
  std::function<void()> finished_;
};

}  // namespace trireme
