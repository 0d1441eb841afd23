// What ranks tell each other: the advertisement of a rank, the records that accompany a
// channel, and the request for a descriptor. Integers are little-endian; strings are a
// u32 length and the bytes.
//
//   record = length{u16} kind{u8} fields
// Everything that comes is checked before it is used.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

inline constexpr std::size_t kCudaIpcTokenBytes = 32;
inline constexpr std::size_t kCudaIpcHandleBytes = 64;  // CUipcMemHandle
inline constexpr std::size_t kCudaIpcMostRecordBytes = 512;

// How fast a rank expects to read another GPU's memory.
struct CudaIpcPath {
  std::string uuid;  // Of the GPU that holds the memory.
  double bytes_per_second = 0;
  double latency_us = 0;
  std::string way;  // "18 NVLinks; ...": for people.
};

struct CudaIpcEndpoint {
  std::string process;  // Random; equal for ranks that are threads of one process.
  std::string scope;    // IPC and PID namespaces.
  std::string uuid;
  std::string pci_address;
  std::vector<CudaIpcPath> paths;  // To GPUs whose memory this rank can read, its own first.
  std::string address;             // Where descriptors are asked for.
  std::string token;
  std::string probe_handle;  // Of memory that holds a pattern made from the token.
  std::string base;          // Advertisements of the transports below.
  std::string records;

  std::string encode() const;
  static Result<CudaIpcEndpoint> decode(std::string_view text);
  const CudaIpcPath* path_to(std::string_view gpu) const;
};

// How the receiver gets at memory.
enum class CudaIpcAccess : std::uint8_t {
  address = 0,     // Same process.
  handle = 1,      // CUipcMemHandle, in the record.
  descriptor = 2,  // To be asked for.
};

// Where memory sent in place lies.
struct CudaIpcRegion {
  std::uint64_t id = 0;  // Of the allocation, as its process numbers them.
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  CudaIpcAccess access = CudaIpcAccess::address;
  std::string handle;
};

struct CudaIpcSegment {
  std::uint64_t position = 0;  // In the stream of the channel.
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // In the region.
  CudaIpcRegion region;
  std::uint64_t end() const { return position + bytes; }
};

struct CudaIpcRecord {
  enum class Kind : std::uint8_t {
    hello = 1,     // The first: whether the sender of the record can read the other's memory.
    segment = 2,   // Memory that belongs here in the stream.
    consumed = 3,  // All segments that end at or before `position`.
    withdraw = 4,  // The memory of what is not consumed may be gone.
    forget = 5,    // The allocation `id` is freed.
  };
  Kind kind = Kind::hello;
  bool reads = false;
  std::string reason;  // Why not.
  CudaIpcSegment segment;
  std::uint64_t position = 0;
  std::uint64_t id = 0;

  std::string encode() const;
  // The record at the start of `text`, which is shortened by it; nullopt while it is not
  // complete. Errors: data_loss.
  static Result<std::optional<CudaIpcRecord>> take(std::string_view& text);
};

struct CudaIpcRequest {
  std::string token;  // The receiver's.
  std::uint64_t id = 0;

  std::string encode() const;
  static Result<CudaIpcRequest> decode(std::string_view text);
};
inline constexpr std::size_t kCudaIpcRequestBytes = 8 + 4 + kCudaIpcTokenBytes + 8;

}  // namespace trireme
