// The functions of libibverbs over the fake's objects.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/runtime/transport/verbs/fake_network.h"

namespace trireme::test {
namespace {

// libibverbs' functions carry no argument for it; one network exists at a time.
FakeNetwork* the_network = nullptr;

template <typename Object, typename Public>
Object* object_of(Public* member) {
  return reinterpret_cast<Object*>(member);  // The public part is the first member.
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) {
  const std::lock_guard lock(the_network->mutex);
  auto* queue = object_of<FakeQueue>(cq);
  int count = 0;
  for (; count < most && !queue->entries.empty(); ++count) {
    completions[count] = queue->entries.front();
    queue->entries.pop_front();
  }
  return count;
}

int req_notify_cq(ibv_cq* cq, int) {
  const std::lock_guard lock(the_network->mutex);
  object_of<FakeQueue>(cq)->armed = true;
  return 0;
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr**) {
  const std::lock_guard lock(the_network->mutex);
  auto* pair = object_of<FakePair>(qp);
  FakeRequest posted{*request, {}, {}};
  if (request->num_sge == 1) posted.piece = request->sg_list[0];
  if (pair->type == IBV_QPT_UD) {
    const auto* data = reinterpret_cast<const std::byte*>(posted.piece.addr);
    posted.payload.assign(data, data + posted.piece.length);
  }
  pair->wire.push_back(std::move(posted));
  the_network->changed.notify_all();
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr**) {
  const std::lock_guard lock(the_network->mutex);
  FakePair::Posted posted{request->wr_id, {}};
  if (request->num_sge == 1) posted.piece = request->sg_list[0];
  object_of<FakePair>(qp)->posted.push_back(posted);
  return 0;
}

ibv_device** get_device_list(int* count) {
  *count = the_network->device_count;
  auto** list = new ibv_device*[the_network->devices.size() + 1]();
  std::transform(the_network->devices.begin(), the_network->devices.end(), list,
                 [](const auto& device) { return device.get(); });
  return list;
}

ibv_context* open_device(ibv_device* device) {
  auto* context = new FakeContext;
  context->device = device->name[4] - '0';
  context->context.device = device;
  context->context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  context->context.ops.poll_cq = poll_cq;
  context->context.ops.req_notify_cq = req_notify_cq;
  context->context.ops.post_send = post_send;
  context->context.ops.post_recv = post_recv;
  const std::lock_guard lock(the_network->mutex);
  the_network->contexts.insert(context);
  ++the_network->objects;
  return &context->context;
}

int close_device(ibv_context* context) {
  auto* fake = object_of<FakeContext>(context);
  const std::lock_guard lock(the_network->mutex);
  the_network->contexts.erase(fake);
  --the_network->objects;
  close(context->async_fd);
  delete fake;
  return 0;
}

int query_port(ibv_context*, std::uint8_t, ibv_port_attr* attributes) {
  *attributes = {};
  attributes->state = IBV_PORT_ACTIVE;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->active_mtu = IBV_MTU_1024;
  attributes->active_width = 2;
  attributes->active_speed = 32;
  return 0;
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t, std::uint32_t, std::size_t) {
  const auto device = static_cast<std::uint8_t>(object_of<FakeContext>(context)->device);
  entries[0] = {};
  entries[0].gid.raw[0] = 0xfe;
  entries[0].gid.raw[1] = 0x80;
  entries[0].gid.raw[15] = 1;
  entries[0].port_num = 1;
  entries[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  entries[1] = entries[0];
  entries[1].gid_index = 1;
  const std::uint8_t address[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, device, 1};
  std::memcpy(entries[1].gid.raw, address, sizeof address);
  return 2;
}

ibv_pd* alloc_pd(ibv_context* context) {
  auto* domain = new ibv_pd{};
  domain->context = context;
  return domain;
}

int dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}

// REQUIRES: the network's mutex is held.
ibv_mr* make_region(ibv_pd* domain, void* memory, std::size_t bytes) {
  the_network->locked_bytes += bytes;
  ++the_network->objects;
  ++the_network->registrations;
  auto* region = new ibv_mr{};
  region->context = domain->context;
  region->pd = domain;
  region->addr = memory;
  region->length = bytes;
  region->lkey = region->rkey = the_network->next_number++;
  the_network->regions[region->rkey] = region;
  return region;
}

ibv_mr* reg_mr(ibv_pd* domain, void* memory, std::size_t bytes, int) {
  const std::lock_guard lock(the_network->mutex);
  const FakeFaults& faults = the_network->faults;
  const std::size_t left = faults.lockable_bytes - std::min(faults.lockable_bytes, the_network->locked_bytes);
  const bool foreign = faults.no_peer_memory && FakeGpu::owns(memory);
  if (foreign || bytes > left) {
    errno = foreign ? EFAULT : ENOMEM;
    return nullptr;
  }
  return make_region(domain, memory, bytes);
}

ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t, std::size_t bytes, std::uint64_t address, int fd, int) {
  const std::lock_guard lock(the_network->mutex);
  if (the_network->faults.no_dma_buf || fd < 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ++the_network->dma_bufs;
  return make_region(domain, reinterpret_cast<void*>(address), bytes);
}

int dereg_mr(ibv_mr* region) {
  const std::lock_guard lock(the_network->mutex);
  the_network->regions.erase(region->rkey);
  the_network->locked_bytes -= region->length;
  --the_network->objects;
  delete region;
  return 0;
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  auto* channel = new FakeChannel;
  channel->channel.context = context;
  channel->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return &channel->channel;
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete object_of<FakeChannel>(channel);
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void*, ibv_comp_channel* channel, int) {
  auto* queue = new FakeQueue;
  queue->cq.context = context;
  queue->cq.channel = channel;
  queue->cq.cqe = entries;
  queue->channel = object_of<FakeChannel>(channel);
  const std::lock_guard lock(the_network->mutex);
  ++the_network->objects;
  return &queue->cq;
}

int destroy_cq(ibv_cq* cq) {
  auto* queue = object_of<FakeQueue>(cq);
  std::unique_lock lock(the_network->mutex);
  std::erase(queue->channel->events, cq);
  the_network->changed.wait(lock, [&] { return queue->unacknowledged == 0; });
  --the_network->objects;
  delete queue;
  return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** owner) {
  std::uint64_t one = 0;
  if (read(channel->fd, &one, sizeof one) != sizeof one) return -1;
  const std::lock_guard lock(the_network->mutex);
  auto* fake = object_of<FakeChannel>(channel);
  if (fake->events.empty()) return -1;  // Of a queue that is gone.
  *cq = fake->events.front();
  *owner = nullptr;
  ++object_of<FakeQueue>(*cq)->unacknowledged;
  fake->events.pop_front();
  return 0;
}

void ack_cq_events(ibv_cq* cq, unsigned count) {
  const std::lock_guard lock(the_network->mutex);
  object_of<FakeQueue>(cq)->unacknowledged -= static_cast<int>(count);
  the_network->changed.notify_all();
}

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  auto* pair = new FakePair;
  pair->qp.context = domain->context;
  pair->type = attributes->qp_type;
  pair->device = object_of<FakeContext>(domain->context)->device;
  pair->sends = object_of<FakeQueue>(attributes->send_cq);
  pair->receives = object_of<FakeQueue>(attributes->recv_cq);
  const std::lock_guard lock(the_network->mutex);
  pair->qp.qp_num = the_network->next_number++;
  the_network->pairs[pair->qp.qp_num] = pair;
  ++the_network->objects;
  return &pair->qp;
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const std::lock_guard lock(the_network->mutex);
  auto* pair = object_of<FakePair>(qp);
  if ((mask & IBV_QP_QKEY) != 0) pair->key = attributes->qkey;
  if ((mask & IBV_QP_DEST_QPN) != 0) pair->peer = attributes->dest_qp_num;
  if (attributes->qp_state == IBV_QPS_RTR) pair->can_receive = true;
  return 0;
}

int destroy_qp(ibv_qp* qp) {
  const std::lock_guard lock(the_network->mutex);
  the_network->pairs.erase(qp->qp_num);
  --the_network->objects;
  delete object_of<FakePair>(qp);
  return 0;
}

ibv_ah* create_ah(ibv_pd*, ibv_ah_attr*) {
  const std::lock_guard lock(the_network->mutex);
  ++the_network->objects;
  return new ibv_ah{};
}

int destroy_ah(ibv_ah* route) {
  const std::lock_guard lock(the_network->mutex);
  --the_network->objects;
  delete route;
  return 0;
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  std::uint64_t one = 0;
  if (read(context->async_fd, &one, sizeof one) != sizeof one) return -1;
  const std::lock_guard lock(the_network->mutex);
  auto* fake = object_of<FakeContext>(context);
  *event = fake->news.front();
  fake->news.pop_front();
  return 0;
}

}  // namespace

VerbsLibrary fake_library(FakeNetwork* network) {
  the_network = network;
  VerbsLibrary library;
  library.fork_init = [] { return 0; };
  library.get_device_list = get_device_list;
  library.free_device_list = [](ibv_device** list) { delete[] list; };
  library.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
  library.open_device = open_device;
  library.close_device = close_device;
  library.query_port = query_port;
  library.query_gid_table = query_gid_table;
  library.alloc_pd = alloc_pd;
  library.dealloc_pd = dealloc_pd;
  library.reg_mr = reg_mr;
  library.reg_dmabuf_mr = reg_dmabuf_mr;
  library.dereg_mr = dereg_mr;
  library.create_comp_channel = create_comp_channel;
  library.destroy_comp_channel = destroy_comp_channel;
  library.create_cq = create_cq;
  library.destroy_cq = destroy_cq;
  library.get_cq_event = get_cq_event;
  library.ack_cq_events = ack_cq_events;
  library.create_qp = create_qp;
  library.modify_qp = modify_qp;
  library.destroy_qp = destroy_qp;
  library.create_ah = create_ah;
  library.destroy_ah = destroy_ah;
  library.get_async_event = get_async_event;
  library.ack_async_event = [](ibv_async_event*) {};
  library.event_type_str = [](ibv_event_type) { return "event of the fake"; };
  library.wc_status_str = [](ibv_wc_status status) {
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "error of the fake";
  };
  return library;
}

}  // namespace trireme::test
