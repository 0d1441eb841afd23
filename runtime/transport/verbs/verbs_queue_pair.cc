#include "runtime/transport/verbs/verbs_queue_pair.h"

#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include "runtime/platform/api/process.h"
#include "runtime/transport/api/handshake.h"

namespace trireme {
namespace {

constexpr std::uint8_t kTimeoutExponent = 18;  // 4.096 us << 18: 1.07 s.
constexpr std::uint8_t kRetries = 7;
constexpr std::uint8_t kUnlimitedRetries = 7;  // While the receiver's queue is empty; ours never is.
constexpr std::uint8_t kNotReadyTimer = 12;    // 0.64 ms.

}  // namespace

Result<ibv_qp*> create_queue_pair(const VerbsDevice& device, std::uint8_t port, ibv_cq* queue, int depth) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = queue;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = static_cast<std::uint32_t>(depth);
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  ibv_qp* pair = device.verbs().create_qp(device.domain(), &attributes);
  if (pair == nullptr) {
    if (errno == ENOMEM) return registration_error(errno, static_cast<std::size_t>(depth) * 256, device.name());
    return errno_status(errno, fmt::format("ibv_create_qp of depth {} on {}", depth, device.name()));
  }
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = port;
  state.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = device.verbs().modify_qp(pair, &state, mask); error != 0) {
    device.verbs().destroy_qp(pair);
    return errno_status(error, fmt::format("ibv_modify_qp to INIT on {} port {}", device.name(), port));
  }
  return pair;
}

Status join_queue_pair(const VerbsDevice& device, ibv_qp* pair, const QueuePairJoin& join) {
  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.ah_attr = join.route;
  receive.path_mtu = static_cast<ibv_mtu>(join.mtu);
  receive.dest_qp_num = join.peer;
  receive.rq_psn = join.peer_first_packet;
  receive.max_dest_rd_atomic = 1;
  receive.min_rnr_timer = kNotReadyTimer;
  const int receive_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (const int error = device.verbs().modify_qp(pair, &receive, receive_mask); error != 0) {
    return errno_status(error, "ibv_modify_qp to ready-to-receive (is the peer's address reachable from this port?)");
  }
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = kTimeoutExponent;
  send.retry_cnt = kRetries;
  send.rnr_retry = kUnlimitedRetries;
  send.sq_psn = join.first_packet;
  send.max_rd_atomic = 1;
  const int send_mask =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  const int error = device.verbs().modify_qp(pair, &send, send_mask);
  return error == 0 ? Status::ok() : errno_status(error, "ibv_modify_qp to ready-to-send");
}

std::uint32_t random_packet_number() {
  std::uint32_t number = 0;
  const std::string bytes = random_bytes(sizeof number);
  std::memcpy(&number, bytes.data(), sizeof number);
  return number & 0xffffff;
}

}  // namespace trireme
