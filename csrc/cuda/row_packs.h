// Rows that a block of threads keeps in its registers, in packs of 16 bytes.
//
// Rows of whole packs that fit there are read once. All others, and float64, are read by plain kernels value by value.
// Which of them runs depends on width and types alone, not on addresses, so equal values give equal bits: tensors that
// don't begin where packs may are copied.
#pragma once

#include "row_sums.h"

namespace burnlike::cuda {

template <class Element>
inline constexpr int kRowPack = 16 / sizeof(Element);

template <class Element>
using RowValues = Pack<Element, kRowPack<Element>>;

// A thread takes the packs threadIdx.x, threadIdx.x + blockDim.x, ... of a row: up to kPacks.
template <int kPacks, class Run>
__device__ __forceinline__ void for_packs(int64_t packs, Run&& run) {
#pragma unroll
  for (int index = 0; index < kPacks; ++index) {
    const int64_t pack = threadIdx.x + static_cast<int64_t>(index) * blockDim.x;
    if (pack < packs) run(index, pack);
  }
}

// Packs of a row for each thread of its block: a power of two, or 0 for the plain kernels.
inline int packs_of_thread(int64_t width, ElementKind kind, int most) {
  const int64_t pack = 16 / element_size(kind);
  if (kind == ElementKind::kFloat64 || width % pack != 0) return 0;
  for (int packs = 1; packs <= most; packs *= 2) {
    if (width / pack <= packs * kMaxRowThreads) return packs;
  }
  return 0;
}

inline int row_pack_threads(int64_t width, ElementKind kind, int packs) {
  return packs == 0 ? row_threads(width) : row_threads((width * element_size(kind) / 16 + packs - 1) / packs);
}

// The tensor itself where kernels can use it, else a copy. Packs begin at multiples of their size: 16 bytes, or 32 of
// float32 weights beside values of 16 bits.
inline Tensor packed(const Tensor& any, int packs) {
  const Tensor tensor = as_contiguous(any);
  return packs == 0 || is_aligned(tensor.const_data_ptr(), 32) ? tensor : contiguous_copy(tensor);
}

}  // namespace burnlike::cuda
