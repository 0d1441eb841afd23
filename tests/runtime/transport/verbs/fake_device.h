// RDMA devices that exist in this process only, behind the functions of libibverbs: the
// transport runs over them unchanged, under sanitizers and with faults that hardware
// shows once a year. A thread plays the wire: it carries what queue pairs have posted, in
// order within a queue pair and in random order among them.
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/transport/verbs/device_memory.h"
#include "runtime/transport/verbs/verbs_library.h"

namespace trireme::test {

struct FakeFaults {
  unsigned drop_datagrams = 0;            // Of a hundred.
  std::size_t lockable_bytes = SIZE_MAX;  // What registrations may add up to.
  bool no_dma_buf = false;                // The kernel exports none to this device.
  bool no_peer_memory = false;            // Addresses on a GPU are nobody's.
  bool cut = false;                       // Nothing arrives any more: requests end in retry errors.
};

class FakeDevices {
 public:
  // `count` devices "fake0", "fake1", ... with one port each, on a subnet each. One object
  // at a time: the functions of libibverbs have no argument for it.
  explicit FakeDevices(int count);
  ~FakeDevices();
  FakeDevices(const FakeDevices&) = delete;
  FakeDevices& operator=(const FakeDevices&) = delete;

  const VerbsLibrary& library() const;
  void set_faults(const FakeFaults& faults);
  // The event of every opened context of device `index`.
  void port_event(int index, bool up);
  std::uint64_t bytes_written(int index) const;  // By WRITEs through that device.
  std::uint64_t receiver_not_ready() const;      // Messages that found no receive posted.
  int registrations() const;                     // Made so far.
  int dma_bufs() const;                          // Of these, by dma-buf.
  int open_objects() const;                      // Contexts, queues, queue pairs, regions, routes.
  // A datagram with these bytes to every mailbox there is.
  void send_junk(const void* data, std::size_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Memory that the fake CUDA driver says is on a GPU. One object at a time.
class FakeGpu {
 public:
  FakeGpu();
  ~FakeGpu();
  const CudaDriver& driver() const;
  std::byte* allocate(std::size_t bytes);
  // The next allocation has this address: as an allocator that uses memory again.
  void reallocate(std::byte* memory);
  int copies() const;  // To the host.
  static bool owns(const void* memory);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::test
