// Packs of 16 bytes at any place of a row, whose beginning need not be a multiple of 16 bytes: rows of 50257 values.
//
// Values that lie across two aligned packs are shifted together out of both; the next thread reads the second again,
// from the cache. So which values a thread has depends on the width alone, and so do the bits of sums.
#pragma once

#include <cstdint>
#include <cstring>

#include "pack.h"

namespace burnlike::cuda {

template <class Element>
inline constexpr int kWordsPack = 16 / sizeof(Element);

namespace detail {

// The 16 bytes that begin `bytes` behind the first of eight words: by whole words, then by what is left of one.
template <size_t kElementBytes>
__device__ __forceinline__ Pack<uint32_t, 4> shifted(const uint32_t (&words)[8], unsigned bytes) {
  uint32_t near[6];
  uint32_t nearer[5];
#pragma unroll
  for (int word = 0; word < 6; ++word) near[word] = (bytes & 8) != 0 ? words[word + 2] : words[word];
#pragma unroll
  for (int word = 0; word < 5; ++word) nearer[word] = (bytes & 4) != 0 ? near[word + 1] : near[word];
  Pack<uint32_t, 4> pack;
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    const uint64_t both = static_cast<uint64_t>(nearer[word + 1]) << 32 | nearer[word];
    pack.values[word] = kElementBytes < 4 ? static_cast<uint32_t>(both >> (8 * (bytes & 3))) : nearer[word];
  }
  return pack;
}

}  // namespace detail

// The values [first, first + kWordsPack) of a row of `width`; those before and behind it are 0.
template <class Element>
__device__ __forceinline__ Pack<Element, kWordsPack<Element>> read_shifted(
    const Element* row, int64_t first, int64_t width) {
  constexpr int kPack = kWordsPack<Element>;
  Pack<Element, kPack> values{};
  const Element* start = row + first;
  const auto bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(start) % 16);
  const int64_t begin = first - static_cast<int64_t>(bytes / sizeof(Element));
  if (begin >= 0 && begin + (bytes == 0 ? kPack : 2 * kPack) <= width) {
    const auto* place = reinterpret_cast<const uint32_t*>(row + begin);
    const Pack<uint32_t, 4> one = read_values<4>(place);
    const Pack<uint32_t, 4> other = bytes == 0 ? one : read_values<4>(place + 4);
    uint32_t words[8];
    std::memcpy(words, &one, sizeof(one));
    std::memcpy(words + 4, &other, sizeof(other));
    const Pack<uint32_t, 4> found = detail::shifted<sizeof(Element)>(words, bytes);
    std::memcpy(&values, &found, sizeof(values));
    return values;
  }
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    if (first + lane >= 0 && first + lane < width) values.values[lane] = start[lane];
  }
  return values;
}

// Values between the last multiple of 16 bytes and a row's beginning: where `write_aligned` may begin, before the row.
template <class Element>
__device__ __forceinline__ int64_t values_before(const Element* row) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(Element));
}

// Writes them, at a place that is a multiple of 16 bytes, but for those before and behind the row.
template <class Element>
__device__ __forceinline__ void write_aligned(
    Element* row, int64_t first, int64_t width, const Pack<Element, kWordsPack<Element>>& values) {
  constexpr int kPack = kWordsPack<Element>;
  if (first >= 0 && first + kPack <= width) {
    return write_values(row + first, values);
  }
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    if (first + lane >= 0 && first + lane < width) row[first + lane] = values.values[lane];
  }
}

}  // namespace burnlike::cuda
