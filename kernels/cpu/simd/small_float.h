// Branch-free conversions between f32 and the 8- and 16-bit floating-point types, written
// so that compilers turn loops over them into vector code. Bit for bit the results of
// base/float_types.h (tested for every code), which is the specification.
//
// Like all files of this folder whose functions are in an anonymous namespace, this one is
// compiled once per instruction set (baseline.cc, avx2.cc) and calls no inline function of
// other headers, so that no code for one instruction set reaches another's callers.
#pragma once

#include <cstdint>

namespace trireme::kernels {
namespace {

inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// An IEEE-like format of 1 + kExponent + kMantissa bits stored in Code.
template <class CodeType, int kExponent, int kMantissa, bool kInfinity>
struct SmallFloat {
  using Code = CodeType;
  static constexpr int kWidth = kExponent + kMantissa;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr std::uint32_t kBias = (1u << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kExponentMask = ((1u << kExponent) - 1) << kMantissa;
  static constexpr std::uint32_t kMagnitudeMask = (1u << kWidth) - 1;
  static constexpr std::uint32_t kNan = kInfinity ? kExponentMask | (1u << (kMantissa - 1)) : kMagnitudeMask;
  static constexpr std::uint32_t kOverflow = kInfinity ? kExponentMask : kMagnitudeMask - 1;
  static constexpr std::uint32_t kRebias = (127u - kBias) << 23;
  // 2^(1 - bias), the smallest normal number, as f32 bits.
  static constexpr std::uint32_t kSmallestNormal = (128u - kBias) << 23;

  static inline float decode(Code code) {
    const std::uint32_t magnitude = code & kMagnitudeMask;
    const std::uint32_t sign = (static_cast<std::uint32_t>(code) & ~kMagnitudeMask) << (31 - kWidth);
    const std::uint32_t shifted = magnitude << kShift;
    // A subnormal is mantissa * 2^(1 - bias - kMantissa): put the mantissa under the
    // exponent of the smallest normal and take that number away again.
    const std::uint32_t subnormal = bits_of(float_of(shifted | kSmallestNormal) - float_of(kSmallestNormal));
    std::uint32_t bits = magnitude < (1u << kMantissa) ? subnormal : shifted + kRebias;
    if (kInfinity) {
      bits = magnitude >= kExponentMask ? (shifted | 0x7f800000u) : bits;
      bits = magnitude > kExponentMask ? 0x7fc00000u : bits;
    } else {
      bits = magnitude == kMagnitudeMask ? 0x7fc00000u : bits;
    }
    return float_of(bits | sign);
  }

  static inline Code encode(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t sign = (bits >> 31) << kWidth;
    // Below the smallest normal, an f32 addition whose last bit has the weight of the
    // smallest subnormal does the rounding.
    constexpr std::uint32_t kMagic = (127u + 1 - kBias - kMantissa + 23) << 23;
    const std::uint32_t subnormal = bits_of(float_of(magnitude) + float_of(kMagic)) - kMagic;
    // A carry out of the rounded mantissa makes the next exponent, up to infinity.
    const std::uint32_t odd = (magnitude >> kShift) & 1u;
    const std::uint32_t normal = (magnitude - kRebias + ((1u << (kShift - 1)) - 1) + odd) >> kShift;
    std::uint32_t code = magnitude < kSmallestNormal ? subnormal : normal;
    code = code > kOverflow ? kOverflow : code;
    code = magnitude >= ((128u + kBias + 1) << 23) ? kOverflow : code;  // Where `normal` may have wrapped.
    code = magnitude > 0x7f800000u ? kNan : code;
    return static_cast<Code>(sign | code);
  }
};

using F16 = SmallFloat<std::uint16_t, 5, 10, true>;
using F8E4M3 = SmallFloat<std::uint8_t, 4, 3, false>;
using F8E5M2 = SmallFloat<std::uint8_t, 5, 2, true>;

struct Bf16 {
  using Code = std::uint16_t;
  static inline float decode(Code code) { return float_of(static_cast<std::uint32_t>(code) << 16); }
  static inline Code encode(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t nan = (bits >> 16) | 0x40u;
    return static_cast<Code>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};

// f32 itself, so that the wide forms take it too.
struct F32 {
  using Code = float;
  static inline float decode(Code code) { return code; }
  static inline Code encode(float value) { return value; }
};

}  // namespace
}  // namespace trireme::kernels
