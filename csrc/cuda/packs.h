// How elementwise kernels go through rows: a thread takes 16 bytes of `Element` at a time, or one value where rows are
// not aligned to that. The last pack of a row may be a part of one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "burnlike/row_places.h"
#include "divider.h"
#include "launch.h"

namespace burnlike::cuda {

inline constexpr int kPackThreads = 256;

struct PackPlace {
  int64_t row;
  int64_t column;
};

// All packs of [rows, width] values, in order.
struct PackGrid {
  PackGrid(int64_t rows, int64_t width_, int pack)
      : packs(rows * ((width_ + pack - 1) / pack)),
        width(width_),
        pack_values(pack),
        row_packs(std::max<int64_t>((width_ + pack - 1) / pack, 1)) {}

  int64_t packs;
  int64_t width;
  int32_t pack_values;
  Divider row_packs;

  __device__ __forceinline__ PackPlace place(int64_t index) const {
    // Where values lie side by side there is one row, and nothing to divide.
    if (index < row_packs.divisor) return {0, index * pack_values};
    const int64_t row = row_packs.quotient(index);
    return {row, (index - row * row_packs.divisor) * pack_values};
  }

  // Threads take several packs only where a grid of one for each would be too large.
  uint32_t blocks() const {
    return static_cast<uint32_t>(std::min<int64_t>((packs + kPackThreads - 1) / kPackThreads, 1 << 30));
  }
};

__device__ __forceinline__ int64_t first_pack() {
  return static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
}

__device__ __forceinline__ int64_t pack_stride() { return static_cast<int64_t>(gridDim.x) * kPackThreads; }

template <int kPack, class Element>
__device__ __forceinline__ Pack<Element, kPack> read_pack(
    const RowPlaces<const Element>& rows, const PackPlace& place) {
  return read_values<kPack>(rows.data + place.row * rows.stride + place.column);
}

template <int kPack, class Element>
__device__ __forceinline__ void write_pack(
    const RowPlaces<Element>& rows, const PackPlace& place, const Pack<Element, kPack>& values) {
  write_values(rows.data + place.row * rows.stride + place.column, values);
}

// Those of the values that the row of `width` has; the others are 0.
template <int kPack, class Element>
__device__ __forceinline__ Pack<Element, kPack> read_pack(
    const RowPlaces<const Element>& rows, const PackPlace& place, int64_t width) {
  const Element* start = rows.data + place.row * rows.stride + place.column;
  if (kPack == 1 || place.column + kPack <= width) return read_pack<kPack>(rows, place);
  Pack<Element, kPack> values{};
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    if (place.column + lane < width) values.values[lane] = start[lane];
  }
  return values;
}

template <int kPack, class Element>
__device__ __forceinline__ void write_pack(
    const RowPlaces<Element>& rows, const PackPlace& place, int64_t width, const Pack<Element, kPack>& values) {
  Element* start = rows.data + place.row * rows.stride + place.column;
  if (kPack == 1 || place.column + kPack <= width) return write_pack(rows, place, values);
#pragma unroll
  for (int lane = 0; lane < kPack; ++lane) {
    if (place.column + lane < width) start[lane] = values.values[lane];
  }
}

template <int kPack, class Element>
bool is_packed(const RowPlaces<Element>& rows) {
  return is_packed<std::remove_const_t<Element>, kPack>(rows.data);
}

// Calls `run(pack, grid)`, `pack` the number of values that all `places` allow to be taken as one. Without kPartial all
// packs are whole.
template <class Element, bool kPartial = true, class Run, class... Places>
void with_packs(int64_t rows, int64_t width, const Run& run, const Places&... places) {
  constexpr int kPack = 16 / sizeof(Element);
  if ((... && (places.stride == width))) {
    width *= rows;
    rows = 1;
  }
  const bool fits = (kPartial || width % kPack == 0) &&
                    (... && (is_packed<kPack>(places) && (rows == 1 || places.stride % kPack == 0)));
  if (fits) return run(std::integral_constant<int, kPack>{}, PackGrid(rows, width, kPack));
  run(std::integral_constant<int, 1>{}, PackGrid(rows, width, 1));
}

}  // namespace burnlike::cuda
