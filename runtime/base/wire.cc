#include <trireme/base/wire.h>

#include <bit>
#include <limits>

#include <trireme/base/check.h>

namespace trireme {
namespace {

void append_little_endian(std::string& data, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) data += static_cast<char>(value >> (8 * i));
}

}  // namespace

void WireWriter::u8(std::uint8_t value) {
  append_little_endian(data_, value, 1);
}
void WireWriter::u16(std::uint16_t value) {
  append_little_endian(data_, value, 2);
}
void WireWriter::u32(std::uint32_t value) {
  append_little_endian(data_, value, 4);
}
void WireWriter::u64(std::uint64_t value) {
  append_little_endian(data_, value, 8);
}
void WireWriter::f64(double value) {
  u64(std::bit_cast<std::uint64_t>(value));
}

void WireWriter::bytes(std::string_view value) {
  TRIREME_CHECK(value.size() <= std::numeric_limits<std::uint32_t>::max(), "a wire field is below 4 GiB");
  u32(static_cast<std::uint32_t>(value.size()));
  data_.append(value);
}

std::uint64_t WireReader::little_endian(std::size_t width) {
  if (failed_ || data_.size() < width) {
    failed_ = true;
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(data_[i])) << (8 * i);
  }
  data_.remove_prefix(width);
  return value;
}

std::uint8_t WireReader::u8() {
  return static_cast<std::uint8_t>(little_endian(1));
}
std::uint16_t WireReader::u16() {
  return static_cast<std::uint16_t>(little_endian(2));
}
std::uint32_t WireReader::u32() {
  return static_cast<std::uint32_t>(little_endian(4));
}
std::uint64_t WireReader::u64() {
  return little_endian(8);
}
double WireReader::f64() {
  return std::bit_cast<double>(u64());
}

std::string_view WireReader::bytes() {
  const std::size_t size = u32();
  if (failed_ || data_.size() < size) {
    failed_ = true;
    return {};
  }
  const std::string_view value = data_.substr(0, size);
  data_.remove_prefix(size);
  return value;
}

}  // namespace trireme
