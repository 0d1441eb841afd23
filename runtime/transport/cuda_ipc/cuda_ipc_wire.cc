#include "runtime/transport/cuda_ipc/cuda_ipc_wire.h"

#include <cmath>

#include <trireme/base/wire.h>

namespace trireme {
namespace {

constexpr std::uint64_t kMagic = 0x5452494355444131;  // "TRICUDA1": the version is its last digit.
constexpr std::size_t kUuidBytes = 16;
constexpr std::uint32_t kMostPaths = 1024;
constexpr std::size_t kMostReasonBytes = 300;

Status malformed(const char* what) {
  return data_loss(std::string("cuda_ipc transport: ") + what + " is not in the format of this version");
}

void write_segment(WireWriter& writer, const CudaIpcSegment& segment) {
  writer.u64(segment.position);
  writer.u64(segment.bytes);
  writer.u64(segment.offset);
  writer.u64(segment.region.id);
  writer.u64(segment.region.base);
  writer.u64(segment.region.bytes);
  writer.u8(static_cast<std::uint8_t>(segment.region.access));
  writer.bytes(segment.region.handle);
}

// False when the fields contradict each other.
bool read_segment(WireReader& reader, CudaIpcSegment& segment) {
  segment.position = reader.u64();
  segment.bytes = reader.u64();
  segment.offset = reader.u64();
  segment.region.id = reader.u64();
  segment.region.base = reader.u64();
  segment.region.bytes = reader.u64();
  const std::uint8_t access = reader.u8();
  segment.region.handle = reader.string();
  if (reader.failed() || access > static_cast<std::uint8_t>(CudaIpcAccess::descriptor)) return false;
  segment.region.access = static_cast<CudaIpcAccess>(access);
  const std::size_t handle = segment.region.access == CudaIpcAccess::handle ? kCudaIpcHandleBytes : 0;
  return segment.bytes > 0 && segment.position <= UINT64_MAX - segment.bytes &&
         segment.offset <= segment.region.bytes && segment.bytes <= segment.region.bytes - segment.offset &&
         segment.region.handle.size() == handle;
}

}  // namespace

std::string CudaIpcEndpoint::encode() const {
  WireWriter writer;
  writer.u64(kMagic);
  writer.bytes(process);
  writer.bytes(scope);
  writer.bytes(uuid);
  writer.bytes(pci_address);
  writer.u32(static_cast<std::uint32_t>(paths.size()));
  for (const CudaIpcPath& path : paths) {
    writer.bytes(path.uuid);
    writer.f64(path.bytes_per_second);
    writer.f64(path.latency_us);
    writer.bytes(path.way);
  }
  writer.bytes(address);
  writer.bytes(token);
  writer.bytes(probe_handle);
  writer.bytes(base);
  writer.bytes(records);
  return writer.take();
}

Result<CudaIpcEndpoint> CudaIpcEndpoint::decode(std::string_view text) {
  WireReader reader(text);
  if (reader.u64() != kMagic) return malformed("an advertisement");
  CudaIpcEndpoint endpoint;
  endpoint.process = reader.string();
  endpoint.scope = reader.string();
  endpoint.uuid = reader.string();
  endpoint.pci_address = reader.string();
  const std::uint32_t count = reader.u32();
  if (count > kMostPaths) return malformed("an advertisement");
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) {
    CudaIpcPath path;
    path.uuid = reader.string();
    path.bytes_per_second = reader.f64();
    path.latency_us = reader.f64();
    path.way = reader.string();
    if (!std::isfinite(path.bytes_per_second) || path.bytes_per_second <= 0 || !std::isfinite(path.latency_us)) {
      return malformed("a path of an advertisement");
    }
    endpoint.paths.push_back(std::move(path));
  }
  endpoint.address = reader.string();
  endpoint.token = reader.string();
  endpoint.probe_handle = reader.string();
  endpoint.base = reader.string();
  endpoint.records = reader.string();
  if (!reader.finished() || endpoint.uuid.size() != kUuidBytes || endpoint.token.size() != kCudaIpcTokenBytes ||
      endpoint.probe_handle.size() != kCudaIpcHandleBytes) {
    return malformed("an advertisement");
  }
  return endpoint;
}

const CudaIpcPath* CudaIpcEndpoint::path_to(std::string_view gpu) const {
  for (const CudaIpcPath& path : paths) {
    if (path.uuid == gpu) return &path;
  }
  return nullptr;
}

std::string CudaIpcRecord::encode() const {
  WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(kind));
  switch (kind) {
    case Kind::hello:
      writer.u8(reads ? 1 : 0);
      writer.bytes(std::string_view(reason).substr(0, kMostReasonBytes));
      break;
    case Kind::segment:
      write_segment(writer, segment);
      break;
    case Kind::consumed:
      writer.u64(position);
      break;
    case Kind::withdraw:
      break;
    case Kind::forget:
      writer.u64(id);
      break;
  }
  WireWriter framed;
  framed.u16(static_cast<std::uint16_t>(writer.data().size()));
  return framed.take() + writer.data();
}

Result<std::optional<CudaIpcRecord>> CudaIpcRecord::take(std::string_view& text) {
  WireReader head(text.substr(0, 2));
  const std::size_t length = head.u16();
  if (head.failed()) return std::optional<CudaIpcRecord>();
  if (length == 0 || length > kCudaIpcMostRecordBytes) return malformed("a record's length");
  if (text.size() - 2 < length) return std::optional<CudaIpcRecord>();
  WireReader reader(text.substr(2, length));
  text.remove_prefix(2 + length);
  CudaIpcRecord record;
  record.kind = static_cast<Kind>(reader.u8());
  switch (record.kind) {
    case Kind::hello:
      record.reads = reader.u8() != 0;
      record.reason = reader.string();
      break;
    case Kind::segment:
      if (!read_segment(reader, record.segment)) return malformed("a segment");
      break;
    case Kind::consumed:
      record.position = reader.u64();
      break;
    case Kind::withdraw:
      break;
    case Kind::forget:
      record.id = reader.u64();
      break;
    default:
      return malformed("a record's kind");
  }
  if (!reader.finished()) return malformed("a record");
  return std::optional<CudaIpcRecord>(std::move(record));
}

std::string CudaIpcRequest::encode() const {
  WireWriter writer;
  writer.u64(kMagic);
  writer.bytes(token);
  writer.u64(id);
  return writer.take();
}

Result<CudaIpcRequest> CudaIpcRequest::decode(std::string_view text) {
  WireReader reader(text);
  if (reader.u64() != kMagic) return malformed("a request");
  CudaIpcRequest request;
  request.token = reader.string();
  request.id = reader.u64();
  if (!reader.finished()) return malformed("a request");
  return request;
}

}  // namespace trireme
