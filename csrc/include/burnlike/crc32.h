// CRC-32 as zlib, gzip and zip have it: the reflected polynomial 0xEDB88320.
#pragma once

#include <cstdint>

#include "macros.h"

namespace burnlike {

// The reflected `remainder`, times x, modulo the polynomial.
constexpr uint32_t crc32_times_x(uint32_t remainder) {
  return (remainder >> 1) ^ ((remainder & 1) != 0 ? 0xEDB88320u : 0u);
}

// The remainder of each byte.
struct Crc32Table {
  uint32_t of[256];

  constexpr Crc32Table() : of{} {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      of[byte] = byte;
      for (int bit = 0; bit < 8; ++bit) of[byte] = crc32_times_x(of[byte]);
    }
  }
};

inline constexpr Crc32Table kCrc32Table;

// The state after `count` bytes more. The state is the checksum with all bits flipped.
BURNLIKE_INLINE uint32_t crc32_byte_by_byte(uint32_t state, const uint8_t* bytes, int64_t count) {
  for (; count > 0; ++bytes, --count) state = (state >> 8) ^ kCrc32Table.of[(state ^ *bytes) & 0xFF];
  return state;
}

// x^bits modulo the polynomial, as carry-less products of reflected values take it: one bit up.
constexpr uint64_t crc32_fold_factor(int bits) {
  uint32_t remainder = 0x80000000u;
  for (int bit = 0; bit < bits; ++bit) remainder = crc32_times_x(remainder);
  return uint64_t{remainder} << 1;
}

}  // namespace burnlike
