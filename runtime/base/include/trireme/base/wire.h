// Encoding of small structured values for the wire and for disk.
//
// Little-endian, fixed-width integers; strings and blobs are a u32 length and the
// bytes. The reader never reads out of bounds: after the first field that does not fit
// it is `failed()`, every later read returns zero or empty, and the caller checks once
// at the end. Nothing here allocates more than the input holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

class WireWriter {
 public:
  void u8(std::uint8_t value);
  void u16(std::uint16_t value);
  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  void i64(std::int64_t value) { u64(static_cast<std::uint64_t>(value)); }
  void f64(double value);
  // REQUIRES: at most 4 GiB - 1.
  void bytes(std::string_view value);
  const std::string& data() const { return data_; }
  std::string take() { return std::move(data_); }

 private:
  std::string data_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view data) : data_(data) {}
  std::uint8_t u8();
  std::uint16_t u16();
  std::uint32_t u32();
  std::uint64_t u64();
  std::int64_t i64() { return static_cast<std::int64_t>(u64()); }
  double f64();
  // A view into the input; valid as long as the input is.
  std::string_view bytes();
  std::string string() { return std::string(bytes()); }
  bool failed() const { return failed_; }
  // True when every byte was read and no read failed.
  bool finished() const { return !failed_ && data_.empty(); }
  std::size_t remaining() const { return data_.size(); }

 private:
  std::uint64_t little_endian(std::size_t width);
  std::string_view data_;
  bool failed_ = false;
};

}  // namespace trireme
