// The state behind FakeDevices: objects as libibverbs hands them out, with what the fake
// must know beside them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/transport/verbs/fake_device.h"

namespace trireme::test {

struct FakeContext {
  ibv_context context{};
  int device = 0;
  std::deque<ibv_async_event> news;
};

struct FakeChannel {
  ibv_comp_channel channel{};
  std::deque<ibv_cq*> events;
};

struct FakeQueue {
  ibv_cq cq{};
  FakeChannel* channel = nullptr;
  std::deque<ibv_wc> entries;
  bool armed = false;
  int unacknowledged = 0;
};

struct FakeRequest {
  ibv_send_wr request{};
  std::vector<std::byte> payload;  // Datagrams; writes are gathered when they travel.
  ibv_sge piece{};
};

struct FakePair {
  ibv_qp qp{};
  ibv_qp_type type = IBV_QPT_RC;
  int device = 0;
  FakeQueue* sends = nullptr;
  FakeQueue* receives = nullptr;
  std::uint32_t key = 0;
  std::uint32_t peer = 0;
  bool can_receive = false;
  bool broken = false;
  std::deque<FakeRequest> wire;
  struct Posted {
    std::uint64_t id = 0;
    ibv_sge piece{};
  };
  std::deque<Posted> posted;
};

struct FakeNetwork {
  std::mutex mutex;
  std::condition_variable changed;
  FakeFaults faults;
  int device_count = 0;
  std::vector<std::unique_ptr<ibv_device>> devices;
  std::set<FakeContext*> contexts;
  std::map<std::uint32_t, FakePair*> pairs;
  std::map<std::uint32_t, ibv_mr*> regions;
  std::size_t locked_bytes = 0;
  std::vector<std::uint64_t> bytes_written;
  std::uint64_t not_ready = 0;
  int objects = 0;
  int registrations = 0;
  int dma_bufs = 0;
  std::uint32_t next_number = 17;
  std::mt19937 random{7};
  bool stopping = false;
  std::thread wire;

  void run_wire();
  // All below: REQUIRES mutex held.
  bool carry_one();
  void carry(FakePair& from, const FakeRequest& request);
  void carry_datagram(FakePair& from, const FakeRequest& request);
  void datagram(FakePair& to, const std::byte* data, std::size_t bytes);
  void push(FakeQueue& queue, const ibv_wc& completion);
  void complete_send(FakePair& from, const FakeRequest& request, ibv_wc_status status);
};

// The functions of libibverbs over `network`, which must outlive their use.
VerbsLibrary fake_library(FakeNetwork* network);

}  // namespace trireme::test
