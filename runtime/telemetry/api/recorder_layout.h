// The flight recorder's memory, as docs/formats/recorder.md describes it (version 1).
//
// One file (a memfd) per rank: a header, then kChannels channels of one size. A channel
// belongs to one communicator at a time: its header, a ring of its last kCalls calls, and
// rows of counters. All of it is 64-bit atomic words with one writer, the rank, and any
// number of readers in other processes, at any moment:
//  - A call's first word holds its version (upper half). The writer makes it odd, writes
//    the other words, makes it even; a reader that sees it odd or changed drops the call.
//  - A channel's version is odd while it belongs to a communicator, and grows at every
//    change of owner; a reader that sees it change reads again.
// Pages that were never written take no memory, so a file is large and nearly free.
// Thread safety: see above.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::recorder_layout {

inline constexpr std::uint64_t kMagic = 0x3152434552495254;  // "TRIRECR1"
inline constexpr std::uint64_t kVersion = 1;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kCalls = 1024;  // Per communicator.
inline constexpr std::size_t kChannels = 1024;
inline constexpr std::size_t kOps = 32;
inline constexpr std::size_t kAlgorithms = 64;
inline constexpr std::size_t kTransportSets = 16;
inline constexpr std::size_t kRows = 64;          // Counted combinations of operation and algorithm.
inline constexpr std::size_t kRetiredRows = 256;  // The same of communicators that are gone, with the transport.
inline constexpr std::size_t kBuckets = 15;
inline constexpr std::size_t kNamedMetrics = 64;
inline constexpr std::size_t kListedMembers = 512;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// Zero-terminated unless full.
template <std::size_t Bytes>
struct Text {
  std::array<Word, Bytes / 8> words;

  void store(std::string_view text) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::uint64_t word = 0;
      for (std::size_t byte = 0; byte < 8 && i * 8 + byte < text.size(); ++byte) {
        word |= std::uint64_t{static_cast<unsigned char>(text[i * 8 + byte])} << (8 * byte);
      }
      words[i].store(word, std::memory_order_release);
    }
  }
  // What is no printable ASCII or UTF-8 byte becomes '?': readers print this on terminals.
  std::string load() const {
    std::string text;
    for (const Word& word : words) {
      const std::uint64_t bytes = word.load(std::memory_order_acquire);
      for (int byte = 0; byte < 8; ++byte) {
        const auto c = static_cast<unsigned char>(bytes >> (8 * byte));
        if (c == 0) return text;
        text += c < 0x20 || c == 0x7f ? '?' : static_cast<char>(c);
      }
    }
    return text;
  }
};

// A call's words.
enum CallWord : std::size_t {
  kHead,      // version << 32 | state << 24 | operation << 16 | type << 8 | reduction
  kSequence,  // 0 for a message.
  kCount,
  kEntered,  // Ticks of the time-stamp counter.
  kStarted,
  kEnded,
  kPeers,  // root << 32 | tag
  kWaits,  // (world rank waited for + 1) << 32 | algorithm
};
struct alignas(64) Call {
  std::array<Word, 8> words;
};

// Calls that ended, of one operation and algorithm.
struct Row {
  Word key;  // 0: free; otherwise 1 << 32 | transports << 16 | operation << 8 | algorithm
  Word failures;
  Word bytes;
  Word nanoseconds;
  std::array<Word, kBuckets> buckets;  // Up to 2^(10 + 2 i) ns; the last holds the rest. Successful calls.
  Word reserved;
};

struct alignas(kPage) Channel {
  Word version;  // Odd: in use.
  Word context;
  Word place;    // size << 32 | own rank
  Word members;  // How they are told: first << 32 | stride (two's complement), or kExplicit, or kUnknown.
  Word transports;
  Word head;                                         // Calls recorded so far.
  Word done_sequence;                                // The last collective that ended well.
  std::array<Word, kListedMembers / 2> member_list;  // Two 32-bit world ranks a word.
  alignas(kPage) std::array<Call, kCalls> calls;
  alignas(kPage) std::array<Row, kRows> rows;
};
inline constexpr std::uint64_t kExplicitMembers = 1ULL << 63;
inline constexpr std::uint64_t kUnknownMembers = kExplicitMembers | 1;

struct NamedMetric {
  Text<64> name;    // "trireme_failures_total"
  Text<64> labels;  // "code=\"peer_dead\""
  Word is_gauge;
  Word value;
};

enum class OwnerState : std::uint64_t { none = 0, joined, left };

struct alignas(kPage) Header {
  Word magic;
  Word version;
  Word header_bytes;
  Word channel_bytes;
  Word channels;  // How many the file has room for.
  Word owner_pid;
  Word owner_start_ticks;  // Field 22 of /proc/PID/stat.
  Word owner_state;
  Word launched_pid;  // The process that the launcher started, which the owner is, or descends from.
  Word place;         // size << 32 | rank
  Word host_place;    // node rank << 32 | local rank
  Word epoch;
  Word attempt;
  Word used_channels;  // Channels below this index have been used.
  Word anchor_ticks;   // The time-stamp counter and
  Word anchor_ns;      // the monotonic clock when the owner joined.
  Word unrecorded;     // Communicators for which no channel was free.
  Word fold_version;   // Odd while rows move from a channel to the retired ones.
  Word failed;         // 1: failure text, culprit and context hold.
  Word culprit;        // World rank + 1; 0: none.
  Word failed_context;
  Text<128> job_id;
  Text<128> host;
  Text<256> program;
  Text<1024> failure;
  std::array<Text<24>, kOps> ops;
  std::array<Text<32>, kAlgorithms> algorithms;
  std::array<Text<32>, kTransportSets> transports;
  std::array<NamedMetric, kNamedMetrics> named;
  std::array<Row, kRetiredRows> retired;
};

inline constexpr std::size_t kFileBytes = sizeof(Header) + kChannels * sizeof(Channel);
constexpr std::size_t channel_offset(std::size_t index) {
  return sizeof(Header) + index * sizeof(Channel);
}

// The name that /proc shows for the file: "/memfd:trireme-recorder (deleted)".
inline constexpr const char* kMemoryName = "trireme-recorder";

}  // namespace trireme::recorder_layout
