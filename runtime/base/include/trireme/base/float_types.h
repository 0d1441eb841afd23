// Conversions between f32 and the low-precision floating-point types.
//
// All round to nearest, ties to even; NaN stays NaN. Overflow of f8_e4m3 saturates to
// its largest finite value 448 (the format has no infinity); f16, bf16 and f8_e5m2
// overflow to infinity as IEEE 754 does. bf16 conversions are inline for hot loops.
// Sources: IEEE 754-2008; OCP 8-bit Floating Point Specification 1.0.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme {

constexpr float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float f8_e4m3_to_f32(std::uint8_t bits);
std::uint8_t f32_to_f8_e4m3(float value);
float f8_e5m2_to_f32(std::uint8_t bits);
std::uint8_t f32_to_f8_e5m2(float value);

}  // namespace trireme
