// PostOffice: point-to-point messages of one communicator with one peer.
//
// Sends and receives of a pair match in order per tag. Messages of different tags may be
// received in any order; what arrives before it is asked for is kept, up to
// kUnexpectedBytes, after which the sender waits (message.h). The channel is not the one
// collectives use, so neither waits for the other.
// Thread safety: one thread at a time. Nothing blocks.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include <trireme/base/status.h>

#include "collectives/execute/message.h"
#include "collectives/execute/operation.h"
#include "runtime/transport/api/channel.h"

namespace trireme {

// A receive met a message of another count or type.
struct MessageMismatch {
  Call receive;
  Call send;
};

class PostOffice {
 public:
  // `self` is this rank's number in the communicator.
  PostOffice(std::unique_ptr<Channel> channel, int self) : channel_(std::move(channel)), self_(self) {}

  // `operation` stays until it is done.
  void post(OperationState* operation);
  // Moves what can be moved; completes operations. Returns true when anything moved.
  bool advance();
  // Operations that are not done.
  std::size_t pending() const;
  // The one that has made no progress for the longest time.
  const OperationState* oldest() const;
  // Takes note of what has moved since the last time: an operation makes progress when its
  // other half appears, and when a large message of this pair moves, behind which it may stand.
  void note_progress(std::uint64_t ticks);
  // Ends all operations.
  void fail(const Status& status);

  const std::optional<MessageMismatch>& mismatch() const { return mismatch_; }
  const Status& error() const { return error_; }  // The peer sent nonsense.
  Status channel_status() const { return channel_->status(); }

 private:
  struct Outgoing {
    MessageHeaderBytes header;
    const std::byte* payload = nullptr;
    std::size_t bytes = 0;
    std::size_t sent = 0;            // Of header, payload and padding.
    OperationState* ends = nullptr;  // Done when this is out and drained.
  };
  struct Announced {
    std::uint64_t id;
    OperationState* operation;
  };
  struct Receive {
    OperationState* operation;
    bool matched = false;
    std::uint64_t id = 0;  // Of the message it was matched with.
  };
  struct Unexpected {
    MessageHeader header;
    std::vector<std::byte> payload;  // Padded.
    bool complete = false;
    OperationState* claimed = nullptr;  // A receive that takes it once complete.
  };

  template <typename Visit>
  void for_each_operation(const Visit& visit) const;

  bool advance_out();
  bool may_start_send() const;
  bool choose_outgoing();
  std::size_t send_together();
  void end_outgoing();
  std::size_t move_outgoing();
  void complete_drained();
  void start_send(OperationState* operation);

  bool advance_in();
  bool read_header();
  bool read_payload();
  void dispatch(const MessageHeader& header);
  void arrive(const MessageHeader& header);
  void clear_to_send(std::uint64_t id);
  void begin_payload(const MessageHeader& header, OperationState* operation, Unexpected* unexpected);
  void end_payload();
  bool fits(const OperationState& operation, const MessageHeader& header);
  void match(Receive& receive, const MessageHeader& header);
  void match_unexpected(Receive& receive, std::list<Unexpected>::iterator message);
  void complete_receive(OperationState* operation);
  void owe_credit(const MessageHeader& header);

  std::unique_ptr<Channel> channel_;
  int self_;

  std::deque<OperationState*> sends_;   // Not started, in order of their calls.
  std::deque<Announced> announced_;     // Waiting for clearance.
  std::deque<Announced> cleared_;       // Their data may go.
  std::deque<MessageHeader> controls_;  // clear and credit, to be sent first.
  bool data_was_last_ = false;          // The last message that went out was one of cleared_.
  std::optional<Outgoing> out_;
  std::vector<OperationState*> sent_;  // Out, but perhaps still buffered in this process.
  std::size_t credit_ = kUnexpectedBytes;
  std::uint64_t next_id_ = 1;

  std::deque<Receive> receives_;  // Until done, in order of their calls.
  std::list<Unexpected> unexpected_;
  std::size_t owed_credit_ = 0;
  MessageHeaderBytes in_header_{};
  std::size_t in_header_bytes_ = 0;
  bool large_moved_ = false;  // Bytes of a large message, since the last note_progress().
  bool in_payload_ = false;   // A payload is being taken in.
  MessageHeader in_message_;
  OperationState* in_operation_ = nullptr;
  Unexpected* in_unexpected_ = nullptr;
  std::size_t in_received_ = 0;  // Of payload and padding.

  std::optional<MessageMismatch> mismatch_;
  Status error_;
};

}  // namespace trireme
