// Everything that comes from a peer: read as written, and refused when cut, lengthened or
// contradicting itself.
#include "runtime/transport/cuda_ipc/cuda_ipc_wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

CudaIpcEndpoint endpoint() {
  CudaIpcEndpoint endpoint;
  endpoint.process = "process";
  endpoint.scope = "ipc:[1] pid:[2]";
  endpoint.uuid = std::string(16, 'u');
  endpoint.pci_address = "0000:1a:00.0";
  endpoint.paths = {{std::string(16, 'u'), 1e12, 8, "within"}, {std::string(16, 'v'), 360e9, 8.5, "18 NVLinks"}};
  endpoint.address = "unix:@trireme-cuda-1";
  endpoint.token = std::string(kCudaIpcTokenBytes, '\0');
  endpoint.probe_handle = std::string(kCudaIpcHandleBytes, 'h');
  endpoint.base = "below";
  endpoint.records = "beside";
  return endpoint;
}

CudaIpcRecord segment() {
  CudaIpcRecord record;
  record.kind = CudaIpcRecord::Kind::segment;
  record.segment = {1000, 500, 20, {7, 0x7f0000000000, 4096, CudaIpcAccess::handle, std::string(64, 'x')}};
  return record;
}

Status refusal(const CudaIpcRecord& record) {
  const std::string text = record.encode();
  std::string_view rest = text;
  return CudaIpcRecord::take(rest).status();
}

TEST(CudaIpcWire, AnEndpointIsReadAsWritten) {
  const auto read = CudaIpcEndpoint::decode(endpoint().encode());
  ASSERT_TRUE(read.is_ok()) << read.status().to_string();
  EXPECT_EQ(read->encode(), endpoint().encode());
  ASSERT_NE(read->path_to(std::string(16, 'v')), nullptr);
  EXPECT_EQ(read->path_to(std::string(16, 'v'))->bytes_per_second, 360e9);
  EXPECT_EQ(read->path_to(std::string(16, 'w')), nullptr);
}

TEST(CudaIpcWire, AnEndpointWithMoreOrLessIsRefused) {
  const std::string text = endpoint().encode();
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_EQ(CudaIpcEndpoint::decode(text.substr(0, bytes)).status().code(), StatusCode::data_loss) << bytes;
  }
  EXPECT_FALSE(CudaIpcEndpoint::decode(text + "x").is_ok());
}

TEST(CudaIpcWire, FiguresThatCannotBeAreRefused) {
  for (const double speed : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    CudaIpcEndpoint bad = endpoint();
    bad.paths[1].bytes_per_second = speed;
    EXPECT_FALSE(CudaIpcEndpoint::decode(bad.encode()).is_ok()) << speed;
  }
}

TEST(CudaIpcWire, RecordsComeOutOfAStreamOneByOneHoweverItIsCut) {
  using Kind = CudaIpcRecord::Kind;
  CudaIpcRecord hello;
  hello.reads = true;
  hello.reason = "because";
  CudaIpcRecord consumed;
  consumed.kind = Kind::consumed;
  consumed.position = 1500;
  CudaIpcRecord withdraw;
  withdraw.kind = Kind::withdraw;
  CudaIpcRecord forget;
  forget.kind = Kind::forget;
  forget.id = 7;
  std::string stream;
  for (const CudaIpcRecord& record : {hello, segment(), consumed, withdraw, forget}) stream += record.encode();
  std::vector<CudaIpcRecord> read;
  std::string held;
  for (const char byte : stream) {
    held += byte;
    std::string_view rest = held;
    const auto record = CudaIpcRecord::take(rest);
    ASSERT_TRUE(record.is_ok()) << record.status().to_string();
    if (record->has_value()) read.push_back(**record);
    held = std::string(rest);
  }
  ASSERT_EQ(read.size(), 5u);
  EXPECT_TRUE(read[0].kind == Kind::hello && read[0].reads && read[0].reason == "because");
  EXPECT_EQ(read[1].encode(), segment().encode());
  EXPECT_EQ(read[1].segment.end(), 1500u);
  EXPECT_EQ(read[2].position, 1500u);
  EXPECT_EQ(read[3].kind, Kind::withdraw);
  EXPECT_EQ(read[4].id, 7u);
}

TEST(CudaIpcWire, SegmentsThatLeaveTheirRegionAreRefused) {
  EXPECT_TRUE(refusal(segment()).is_ok());
  CudaIpcRecord bad = segment();
  bad.segment.offset = 4096 - 499;
  EXPECT_EQ(refusal(bad).code(), StatusCode::data_loss);
  bad.segment.offset = UINT64_MAX;
  EXPECT_FALSE(refusal(bad).is_ok());
  bad = segment();
  bad.segment.bytes = 0;
  EXPECT_FALSE(refusal(bad).is_ok());
  bad = segment();
  bad.segment.position = UINT64_MAX - 10;
  EXPECT_FALSE(refusal(bad).is_ok()) << "its end is past every position";
  bad = segment();
  bad.segment.region.handle.pop_back();
  EXPECT_FALSE(refusal(bad).is_ok());
  bad = segment();
  bad.segment.region.access = CudaIpcAccess::descriptor;
  EXPECT_FALSE(refusal(bad).is_ok()) << "a handle where there is none";
  bad = segment();
  bad.segment.region.access = static_cast<CudaIpcAccess>(3);
  EXPECT_FALSE(refusal(bad).is_ok());
}

TEST(CudaIpcWire, JunkIsRefused) {
  for (const std::string& text : {std::string("\0\0", 2), std::string("\xff\xff", 2), std::string("\1\0\x63", 3),
                                  std::string("\2\0\4x", 4), std::string("\1\0\3", 3)}) {
    std::string_view rest = text;
    EXPECT_EQ(CudaIpcRecord::take(rest).status().code(), StatusCode::data_loss);
  }
  EXPECT_FALSE(CudaIpcRequest::decode("junk").is_ok());
  const CudaIpcRequest request{std::string(kCudaIpcTokenBytes, 't'), 5};
  EXPECT_EQ(request.encode().size(), kCudaIpcRequestBytes);
  EXPECT_EQ(CudaIpcRequest::decode(request.encode())->id, 5u);
}

}  // namespace
}  // namespace trireme
