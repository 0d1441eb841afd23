// The channel: a channel of the transport below, records beside it, and copies of GPU
// memory that the records name.
//
// The stream of bytes is the channel's below, with segments inserted at positions of
// which a record tells before any byte behind them is sent; so a reader that has seen a
// byte can see every record before it. A segment is read by copies, several under way; for
// a reader on the host into pinned slots that peek() shows one after the other. It is
// reported consumed, and the sender drained, when its last byte is. GPU memory that
// cannot be shared, and receiving host memory into GPU memory, pass through a slot.
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <trireme/rendezvous/world.h>

#include "runtime/transport/api/channel.h"
#include "runtime/transport/api/peer_watch.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_exports.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_imports.h"
#include "runtime/transport/cuda_ipc/cuda_ipc_records.h"

namespace trireme {

struct CudaIpcChannelOptions {
  std::unique_ptr<Channel> base;
  std::unique_ptr<Channel> records;
  std::shared_ptr<CudaIpcDevice> device;
  std::shared_ptr<CudaIpcExports> exports;
  std::shared_ptr<CudaIpcImports> imports;
  std::shared_ptr<PeerWatch> peers;
  PeerInfo peer;
  CudaIpcEndpoint endpoint;  // The peer's.
  std::uint64_t context = 0;
  bool same_process = false;
  Status reads;  // Whether a test copy of the peer's memory was right; if not, why.
  // Called when copies are under way, in case the driver does not tell of their end.
  std::function<void()> watch_copies;
};

class CudaIpcChannel final : public Channel {
 public:
  explicit CudaIpcChannel(CudaIpcChannelOptions options);
  // Waits, at most two seconds, for copies under way: their memory may be freed next.
  ~CudaIpcChannel() override;

  std::span<std::byte> reserve() override;
  void commit(std::size_t bytes) override;
  std::span<const std::byte> peek() override;
  void consume(std::size_t bytes) override;
  std::size_t send_some(std::span<const std::byte> data) override;
  std::size_t send_in_place(std::span<const std::byte> data) override;
  std::size_t receive_some(std::span<std::byte> data) override;
  bool progress() override;
  Status status() const override;
  bool drained() const override;
  std::string_view transport() const override { return "cuda_ipc"; }
  std::size_t turn_bytes() const override { return options_.base->turn_bytes(); }

 private:
  // A copy under way, or done and not yet taken.
  struct Piece {
    std::uint64_t position = 0;  // In the stream.
    std::size_t bytes = 0;
    std::byte* target = nullptr;
    std::byte* slot = nullptr;  // To be given back; null for copies from GPU to GPU.
    CUevent event = nullptr;
    std::shared_ptr<CudaIpcMapping> mapping;
  };

  // cuda_ipc_channel.cc: records, states and the end.
  void pump();
  void take(const CudaIpcRecord& record);
  void fail(const Status& error);
  Result<CUevent> copy(std::byte* to, const std::byte* from, std::size_t bytes);
  bool is_usable() const { return error_.is_ok(); }
  CudaIpcCopyState state(const Piece& piece);
  void release(Piece& piece);
  void release_ended();

  // cuda_ipc_channel_send.cc
  bool may_send();
  void drop_staging_of_other(const std::byte* source);
  std::size_t stage(std::span<const std::byte> data);
  bool start_staging(std::span<const std::byte> data);
  std::size_t announce(const CudaIpcRegion& region, std::span<const std::byte> data);
  void tell_of_freed_memory();

  // cuda_ipc_channel_receive.cc
  bool at_segment() const { return !segments_.empty() && segments_.front().position <= inbound_; }
  std::span<const std::byte> peek_segment();
  bool aside_is_under_way();
  bool fail_if_withdrawn(const CudaIpcSegment& segment);
  bool start_piece(const CudaIpcSegment& segment, std::uint64_t position, std::byte* target, std::size_t bytes,
                   std::byte* slot);
  void fill_slots();
  void fill_target(std::span<std::byte> data);
  void start_ring_piece(std::span<std::byte> target);
  std::span<const std::byte> peek_ring();
  void advance(std::size_t bytes);
  void set_pieces_aside();

  CudaIpcChannelOptions options_;
  CudaIpcRecords records_;
  Status error_;
  bool greeted_ = false;      // The peer's hello has come: its records can be seen.
  bool peer_reads_ = false;   // The peer can read our memory.
  std::vector<Piece> aside_;  // Copies nobody waits for; their memory is theirs until they end.
  // Sending.
  std::uint64_t outbound_ = 0;       // Position.
  std::uint64_t announced_end_ = 0;  // Of the last segment.
  std::uint64_t consumed_end_ = 0;   // Of the last segment the peer has consumed.
  std::deque<std::uint64_t> open_ends_;
  std::set<std::uint64_t> told_;  // Allocations the peer may have mapped.
  std::optional<Piece> staged_;
  const std::byte* staged_source_ = nullptr;  // Of the first byte not sent.
  std::size_t staged_sent_ = 0;
  // Receiving.
  std::uint64_t inbound_ = 0;
  std::uint64_t segments_end_ = 0;
  std::deque<CudaIpcSegment> segments_;
  bool withdrawn_ = false;
  std::deque<Piece> pieces_;      // In order from inbound_.
  bool pieces_in_slots_ = false;  // They are for peek().
  std::size_t shown_ = 0;
  bool shown_from_slot_ = false;
};

}  // namespace trireme
