// How elementwise kernels go through rows: a thread takes 16 bytes of `Element` at a time, or one value where rows are
// not aligned to that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "burnlike/row_places.h"
#include "launch.h"

namespace burnlike::cuda {

inline constexpr int kPackThreads = 256;

struct PackPlace {
  int64_t row;
  int64_t column;
};

// All packs of [rows, width] values, in order.
struct PackGrid {
  int64_t packs;
  int64_t row_packs;
  int32_t pack_values;

  __device__ __forceinline__ PackPlace place(int64_t index) const {
    // Where values lie side by side there is one row, and nothing to divide.
    if (index < row_packs) return {0, index * pack_values};
    const int64_t row = index / row_packs;
    return {row, (index - row * row_packs) * pack_values};
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
  return *reinterpret_cast<const Pack<Element, kPack>*>(rows.data + place.row * rows.stride + place.column);
}

template <int kPack, class Element>
__device__ __forceinline__ void write_pack(
    const RowPlaces<Element>& rows, const PackPlace& place, const Pack<Element, kPack>& values) {
  *reinterpret_cast<Pack<Element, kPack>*>(rows.data + place.row * rows.stride + place.column) = values;
}

template <int kPack, class Element>
bool is_packed(const RowPlaces<Element>& rows) {
  return is_packed<std::remove_const_t<Element>, kPack>(rows.data);
}

// Calls `run(pack, grid)`, `pack` the number of values that all `places` allow to be taken as one.
template <class Element, class Run, class... Places>
void with_packs(int64_t rows, int64_t width, const Run& run, const Places&... places) {
  constexpr int kPack = 16 / sizeof(Element);
  if ((... && (places.stride == width))) {
    width *= rows;
    rows = 1;
  }
  const auto grid = [&](int pack) { return PackGrid{rows * (width / pack), width / pack, pack}; };
  const bool fits =
      width % kPack == 0 && (... && (is_packed<kPack>(places) && (rows == 1 || places.stride % kPack == 0)));
  if (fits) return run(std::integral_constant<int, kPack>{}, grid(kPack));
  run(std::integral_constant<int, 1>{}, grid(1));
}

}  // namespace burnlike::cuda
