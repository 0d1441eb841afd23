#include "runtime/transport/verbs/verbs_link.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <trireme/topology/roce_gid.h>

namespace trireme {
namespace {

constexpr std::uint64_t kControlId = UINT64_MAX;

}  // namespace

VerbsLink::VerbsLink(VerbsLinkOptions options)
    : options_(std::move(options)),
      send_(options_.rails.size(), options_.ring_bytes),
      receive_(options_.rails.size(), options_.ring_bytes),
      polls_left_(options_.polls_before_sleep),
      sources_(options_.rails.size() * static_cast<std::size_t>(kVerbsFragmentsPerRail)) {
  for (VerbsRailEnd& end : options_.rails) rails_.emplace_back().end = std::move(end);
}

VerbsLink::~VerbsLink() {
  for (Rail& rail : rails_) {
    if (rail.pair != nullptr) rail.end.device->verbs().destroy_qp(rail.pair);
    if (rail.queue != nullptr) rail.end.device->destroy_queue(rail.queue);
  }
}

void VerbsLink::fail(Status error) {
  std::function<void()> finished;
  {
    const std::lock_guard lock(mutex_);
    break_with(std::move(error));
    finished = try_finish();
  }
  options_.ring_doorbell();
  if (finished) finished();
}

void VerbsLink::break_with(Status error) {
  // The first error is the cause; what follows it is only its consequence.
  if (error_.is_ok()) error_ = std::move(error);
}

void VerbsLink::post_receive(Rail& rail) {
  ibv_recv_wr request{};
  ibv_recv_wr* refused = nullptr;
  if (const int error = ibv_post_recv(rail.pair, &request, &refused); error != 0) {
    break_with(errno_status(error, "ibv_post_recv on " + rail.end.own.name()));
  }
}

void VerbsLink::post(std::size_t index, ibv_send_wr& request) {
  Rail& rail = rails_[index];
  request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(rail.pair, &request, &refused); error != 0) {
    break_with(errno_status(error, "ibv_post_send to " + options_.peer + " over " + rail.end.own.name()));
  }
}

void VerbsLink::post_control(std::size_t rail, VerbsMessageKind kind, std::uint64_t value) {
  ibv_send_wr request{};
  request.wr_id = kControlId;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(encode_verbs_message(kind, value));
  ++controls_open_;
  post(rail, request);
}

void VerbsLink::post_fragment(const VerbsFragment& fragment, const std::byte* source, std::uint32_t key) {
  Rail& rail = rails_[fragment.rail];
  ibv_sge piece{reinterpret_cast<std::uint64_t>(source), fragment.bytes, key};
  ibv_send_wr request{};
  request.wr_id = fragment.number;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htonl(encode_verbs_message(VerbsMessageKind::data, fragment.number));
  request.wr.rdma.remote_addr = peer_ring_address_ + fragment.position % peer_ring_bytes_;
  request.wr.rdma.rkey = rail.peer_ring_key;
  post(fragment.rail, request);
}

void VerbsLink::push() {
  while (usable()) {
    const std::optional<VerbsFragment> fragment = send_.next();
    if (!fragment) break;
    const std::byte* source = send_ring() + fragment->position % options_.ring_bytes;
    post_fragment(*fragment, source, options_.block->region(*rails_[fragment->rail].end.device).lkey);
  }
  if (!usable()) return;
  // What the peer has no room for goes out when its credit comes, whoever sees that.
  if (send_.unposted() > 0 && !armed_) arm();
  if (finished_ && send_.unposted() == 0 && !close_sent_) {
    close_sent_ = true;
    post_control(0, VerbsMessageKind::close, send_.next_number());
  }
}

bool VerbsLink::poll() {
  bool news = false;
  std::array<ibv_wc, 16> completions;
  for (std::size_t index = 0; index < rails_.size(); ++index) {
    int count = 0;
    while ((count = ibv_poll_cq(rails_[index].queue, completions.size(), completions.data())) > 0) {
      news = true;
      for (int i = 0; i < count; ++i) take(index, completions[static_cast<std::size_t>(i)]);
    }
    if (count < 0) break_with(io_error("ibv_poll_cq failed on " + rails_[index].end.own.name()));
  }
  if (news) {
    polls_left_ = options_.polls_before_sleep;
    pay_credit();
    push();
  }
  return news;
}

void VerbsLink::take(std::size_t index, const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) return take_error(rails_[index], completion);
  if ((completion.opcode & IBV_WC_RECV) != 0) {
    post_receive(rails_[index]);
    return take_message(index, ntohl(completion.imm_data), completion.byte_len);
  }
  if (completion.wr_id == kControlId) {
    --controls_open_;
  } else {
    sources_[completion.wr_id % sources_.size()] = nullptr;
    send_.completed(completion.wr_id);
  }
}

void VerbsLink::take_message(std::size_t index, std::uint32_t immediate, std::uint32_t bytes) {
  switch (verbs_message_kind(immediate)) {
    case VerbsMessageKind::data:
      if (Status status = receive_.arrived(immediate, bytes); !status.is_ok()) {
        break_with(status.with_context("the RDMA channel with " + options_.peer));
      }
      return;
    case VerbsMessageKind::credit:
      if (Status status = send_.credited(immediate); !status.is_ok()) {
        break_with(status.with_context("the RDMA channel with " + options_.peer));
      }
      return;
    case VerbsMessageKind::close:
      return receive_.closed(immediate);
    case VerbsMessageKind::ready:
      rails_[index].heard = true;
      if (connected_ || !std::all_of(rails_.begin(), rails_.end(), [](const Rail& rail) { return rail.heard; })) return;
      connected_ = true;
      send_.connect(peer_ring_bytes_);
      return;
  }
}

void VerbsLink::take_error(const Rail& rail, const ibv_wc& completion) {
  // Who has closed need not answer any more, and a flush only follows the error that caused it.
  if (receive_.peer_closed()) return;
  if (completion.status == IBV_WC_WR_FLUSH_ERR && !error_.is_ok()) return;
  break_with(explain(rail, completion));
}

Status VerbsLink::explain(const Rail& rail, const ibv_wc& completion) const {
  const std::string path = rail.end.own.name() + " (" + gid_to_string(rail.end.own_gid.bytes) + " to " +
                           gid_to_string(rail.end.peer_gid.bytes) + ", " + rail.end.peer.name() + ")";
  const std::string what = rail.end.device->verbs().wc_status_str(completion.status);
  if (completion.status == IBV_WC_RETRY_EXC_ERR || completion.status == IBV_WC_RNR_RETRY_EXC_ERR) {
    return unavailable(options_.peer + " no longer answers over " + path + ": " + what +
                       ". Its process or host is gone, or a port or switch between is down or drops packets; check "
                       "the links (rdma link, ibstat) and, with RoCE, that UDP port 4791 and frames of the MTU pass");
  }
  return io_error("RDMA to " + options_.peer + " over " + path + " failed: " + what + " (vendor code " +
                  std::to_string(completion.vendor_err) + ")");
}

void VerbsLink::pay_credit() {
  if (!usable() || !receive_.credit_due() || controls_open_ >= kVerbsControlMessages / 2) return;
  ibv_send_wr request{};
  request.wr_id = kControlId;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(receive_.take_credit());
  ++controls_open_;
  post(0, request);
}

void VerbsLink::arm() {
  armed_ = true;
  for (Rail& rail : rails_) ibv_req_notify_cq(rail.queue, 0);
  // What came before the queues were armed makes no event.
  if (poll()) options_.ring_doorbell();
}

void VerbsLink::wait_for_news() {
  if (armed_ || !joined_) return;
  if (polls_left_ > 0) {
    // Looking costs less than being woken: let the waiter come back instead of sleeping.
    --polls_left_;
    options_.ring_doorbell();
    return;
  }
  arm();
}

std::span<std::byte> VerbsLink::reserve() {
  const std::lock_guard lock(mutex_);
  if (joined_) poll();
  if (receive_.peer_closed()) {
    ended_ = true;
    return {};
  }
  const std::uint64_t begin = send_.tail() % options_.ring_bytes;
  const std::uint64_t room = send_.room();
  seen_room_ = room;
  if (room < options_.ring_bytes / 2) wait_for_news();
  return {send_ring() + begin, std::min(room, options_.ring_bytes - begin)};
}

void VerbsLink::commit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  TRIREME_CHECK(bytes <= send_.room(), "commit() of more bytes than reserve() showed");
  send_.stage(bytes);
  push();
}

std::span<const std::byte> VerbsLink::peek() {
  const std::lock_guard lock(mutex_);
  if (joined_) poll();
  // A credit that could not be sent when it was due goes now.
  pay_credit();
  const std::uint64_t begin = receive_.head() % options_.ring_bytes;
  const std::uint64_t bytes = receive_.readable();
  if (bytes == 0 && receive_.at_end()) ended_ = true;
  // The reader may want more than there is, take nothing and wait.
  wait_for_news();
  seen_tail_ = receive_.head() + bytes;
  return {receive_ring() + begin, std::min(bytes, options_.ring_bytes - begin)};
}

void VerbsLink::consume(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  receive_.consume(bytes);
  pay_credit();
}

bool VerbsLink::progress() {
  const std::lock_guard lock(mutex_);
  if (!joined_) return false;
  poll();
  const bool news = receive_.head() + receive_.readable() != seen_tail_ || send_.room() > seen_room_;
  if (!news) wait_for_news();
  return news;
}

bool VerbsLink::drained() {
  const std::lock_guard lock(mutex_);
  if (joined_) poll();
  if (!send_.drained()) wait_for_news();
  return send_.drained();
}

Status VerbsLink::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool VerbsLink::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::function<void()> VerbsLink::try_finish() {
  if (!finished_) return {};
  const bool all_there = close_sent_ && controls_open_ == 0 && send_.drained();
  if (!all_there && !given_up_ && error_.is_ok() && !receive_.peer_closed()) return {};
  return std::exchange(finished_, {});
}

void VerbsLink::close(std::function<void()> finished) {
  {
    const std::lock_guard lock(mutex_);
    finished_ = std::move(finished);
    if (joined_) {
      poll();
      push();
      arm();
    }
    finished = try_finish();
  }
  if (finished) finished();
}

void VerbsLink::give_up() {
  std::function<void()> finished;
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    finished = try_finish();
  }
  if (finished) finished();
}

bool VerbsLink::lingers() {
  const std::lock_guard lock(mutex_);
  return finished_ && (joined_ || send_.unposted() > 0);
}

void VerbsLink::on_completion() {
  std::function<void()> finished;
  {
    const std::lock_guard lock(mutex_);
    armed_ = false;
    poll();
    // Whoever waits for a slow peer, a first word or the end of a closed channel sleeps: we watch.
    if (!connected_ || finished_ || send_.unposted() > 0) arm();
    finished = try_finish();
  }
  options_.ring_doorbell();
  if (finished) finished();
}

void VerbsLink::on_device_lost(const std::string& device, int port, const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    const bool ours = std::any_of(rails_.begin(), rails_.end(), [&](const Rail& rail) {
      return rail.end.own.device == device && (port == 0 || rail.end.own.port == port);
    });
    if (!ours) return;
  }
  fail(why.with_context("the channel with " + options_.peer));
}

}  // namespace trireme
