// Packs of 16 bytes at any place of a row, whose beginning need not be a multiple of 16 bytes: rows of 50257 values.
//
// Values that lie across two aligned packs are shifted together out of both; the next thread reads the second again,
// from the cache. So which values a thread has depends on the width alone, and so do the bits of sums.
#pragma once

#include <cstdint>
#include <cstring>

#include "launch.h"

namespace burnlike::cuda {

template <class Element>
inline constexpr int kWordsPack = 16 / sizeof(Element);

namespace detail {

struct alignas(16) Words {
  uint64_t low, high;
};

// The 16 bytes that begin `bits` bits behind the first of `one`, which `other` follows.
__device__ __forceinline__ Words shifted(const Words& one, const Words& other, unsigned bits) {
  const bool is_far = bits >= 64;
  const uint64_t first = is_far ? one.high : one.low;
  const uint64_t second = is_far ? other.low : one.high;
  const uint64_t third = is_far ? other.high : other.low;
  const unsigned rest = bits % 64;
  return {first >> rest | second << 1 << (63 - rest), second >> rest | third << 1 << (63 - rest)};
}

}  // namespace detail

// The values [first, first + kWordsPack) of a row of `width`; those before and behind it are arbitrary.
template <class Element>
__device__ __forceinline__ Pack<Element, kWordsPack<Element>> read_shifted(
    const Element* row, int64_t first, int64_t width) {
  constexpr int kPack = kWordsPack<Element>;
  Pack<Element, kPack> values{};
  const Element* start = row + first;
  const auto bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(start) % 16);
  const int64_t begin = first - static_cast<int64_t>(bytes / sizeof(Element));
  if (begin >= 0 && begin + (bytes == 0 ? kPack : 2 * kPack) <= width) {
    const auto* words = reinterpret_cast<const detail::Words*>(row + begin);
    const detail::Words found = bytes == 0 ? words[0] : detail::shifted(words[0], words[1], 8 * bytes);
    std::memcpy(&values, &found, sizeof(values));
    return values;
  }
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    if (first + lane >= 0 && first + lane < width) values.values[lane] = start[lane];
  }
  return values;
}

// Writes them, at a place that is a multiple of 16 bytes, but for those before and behind the row.
template <class Element>
__device__ __forceinline__ void write_aligned(
    Element* row, int64_t first, int64_t width, const Pack<Element, kWordsPack<Element>>& values) {
  constexpr int kPack = kWordsPack<Element>;
  if (first >= 0 && first + kPack <= width) {
    *reinterpret_cast<Pack<Element, kPack>*>(row + first) = values;
    return;
  }
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    if (first + lane >= 0 && first + lane < width) row[first + lane] = values.values[lane];
  }
}

}  // namespace burnlike::cuda
