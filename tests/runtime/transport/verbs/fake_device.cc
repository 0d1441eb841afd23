#include "tests/runtime/transport/verbs/fake_device.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>

#include "tests/runtime/transport/verbs/fake_network.h"

namespace trireme::test {

void FakeNetwork::push(FakeQueue& queue, const ibv_wc& completion) {
  queue.entries.push_back(completion);
  if (!queue.armed) return;
  queue.armed = false;
  queue.channel->events.push_back(&queue.cq);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(queue.channel->channel.fd, &one, sizeof one);
}

void FakeNetwork::complete_send(FakePair& from, const FakeRequest& request, ibv_wc_status status) {
  ibv_wc completion{};
  completion.wr_id = request.request.wr_id;
  completion.status = status;
  completion.opcode = request.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
  completion.qp_num = from.qp.qp_num;
  if (status != IBV_WC_SUCCESS) from.broken = true;
  push(*from.sends, completion);
}

void FakeNetwork::datagram(FakePair& to, const std::byte* data, std::size_t bytes) {
  if (to.posted.empty()) return;
  const FakePair::Posted slot = to.posted.front();
  to.posted.pop_front();
  std::memcpy(reinterpret_cast<std::byte*>(slot.piece.addr) + 40, data, bytes);
  ibv_wc completion{};
  completion.wr_id = slot.id;
  completion.opcode = IBV_WC_RECV;
  completion.byte_len = static_cast<std::uint32_t>(40 + bytes);
  push(*to.receives, completion);
}

void FakeNetwork::carry_datagram(FakePair& from, const FakeRequest& request) {
  complete_send(from, request, IBV_WC_SUCCESS);
  const auto to = pairs.find(request.request.wr.ud.remote_qpn);
  const bool lost = faults.cut || random() % 100 < faults.drop_datagrams;
  if (lost || to == pairs.end() || to->second->key != request.request.wr.ud.remote_qkey) return;
  datagram(*to->second, request.payload.data(), request.payload.size());
}

void FakeNetwork::carry(FakePair& from, const FakeRequest& request) {
  if (from.broken) return complete_send(from, request, IBV_WC_WR_FLUSH_ERR);
  if (from.type == IBV_QPT_UD) return carry_datagram(from, request);
  const auto found = pairs.find(from.peer);
  if (faults.cut || found == pairs.end() || !found->second->can_receive) {
    return complete_send(from, request, IBV_WC_RETRY_EXC_ERR);
  }
  FakePair& to = *found->second;
  ibv_wc received{};
  received.opcode = IBV_WC_RECV;
  received.imm_data = request.request.imm_data;
  if (request.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    const auto region = regions.find(request.request.wr.rdma.rkey);
    const std::uint64_t address = request.request.wr.rdma.remote_addr;
    const std::uint64_t base = region == regions.end() ? 0 : reinterpret_cast<std::uint64_t>(region->second->addr);
    if (region == regions.end() || address < base || address + request.piece.length > base + region->second->length) {
      return complete_send(from, request, IBV_WC_REM_ACCESS_ERR);
    }
    std::memcpy(reinterpret_cast<void*>(address), reinterpret_cast<const void*>(request.piece.addr),
                request.piece.length);
    bytes_written[static_cast<std::size_t>(from.device)] += request.piece.length;
    received.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    received.byte_len = request.piece.length;
  }
  if (to.posted.empty()) {
    ++not_ready;
    return complete_send(from, request, IBV_WC_RNR_RETRY_EXC_ERR);
  }
  received.wr_id = to.posted.front().id;
  to.posted.pop_front();
  push(*to.receives, received);
  complete_send(from, request, IBV_WC_SUCCESS);
}

bool FakeNetwork::carry_one() {
  std::vector<FakePair*> ready;
  for (const auto& [number, pair] : pairs) {
    if (!pair->wire.empty()) ready.push_back(pair);
  }
  if (ready.empty()) return false;
  FakePair& from = *ready[random() % ready.size()];
  const FakeRequest request = std::move(from.wire.front());
  from.wire.pop_front();
  carry(from, request);
  return true;
}

void FakeNetwork::run_wire() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (!carry_one()) changed.wait(lock);
  }
}

struct FakeDevices::Impl {
  FakeNetwork network;
  VerbsLibrary library;
};

FakeDevices::FakeDevices(int count) : impl_(std::make_unique<Impl>()) {
  FakeNetwork& network = impl_->network;
  network.device_count = count;
  network.bytes_written.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    auto device = std::make_unique<ibv_device>();
    std::memset(device.get(), 0, sizeof *device);
    std::strcpy(device->name, ("fake" + std::to_string(i)).c_str());
    network.devices.push_back(std::move(device));
  }
  impl_->library = fake_library(&network);
  network.wire = std::thread([&network] { network.run_wire(); });
}

FakeDevices::~FakeDevices() {
  {
    const std::lock_guard lock(impl_->network.mutex);
    impl_->network.stopping = true;
  }
  impl_->network.changed.notify_all();
  impl_->network.wire.join();
}

const VerbsLibrary& FakeDevices::library() const {
  return impl_->library;
}

void FakeDevices::set_faults(const FakeFaults& faults) {
  const std::lock_guard lock(impl_->network.mutex);
  impl_->network.faults = faults;
}

void FakeDevices::port_event(int index, bool up) {
  FakeNetwork& network = impl_->network;
  const std::lock_guard lock(network.mutex);
  for (FakeContext* context : network.contexts) {
    if (context->device != index) continue;
    ibv_async_event event{};
    event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
    event.element.port_num = 1;
    context->news.push_back(event);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(context->context.async_fd, &one, sizeof one);
  }
}

std::uint64_t FakeDevices::bytes_written(int index) const {
  const std::lock_guard lock(impl_->network.mutex);
  return impl_->network.bytes_written[static_cast<std::size_t>(index)];
}

std::uint64_t FakeDevices::receiver_not_ready() const {
  const std::lock_guard lock(impl_->network.mutex);
  return impl_->network.not_ready;
}

int FakeDevices::registrations() const {
  const std::lock_guard lock(impl_->network.mutex);
  return impl_->network.registrations;
}

int FakeDevices::dma_bufs() const {
  const std::lock_guard lock(impl_->network.mutex);
  return impl_->network.dma_bufs;
}

int FakeDevices::open_objects() const {
  const std::lock_guard lock(impl_->network.mutex);
  return impl_->network.objects;
}

void FakeDevices::send_junk(const void* data, std::size_t bytes) {
  FakeNetwork& network = impl_->network;
  const std::lock_guard lock(network.mutex);
  for (const auto& [number, pair] : network.pairs) {
    if (pair->type == IBV_QPT_UD) network.datagram(*pair, static_cast<const std::byte*>(data), bytes);
  }
}

}  // namespace trireme::test
