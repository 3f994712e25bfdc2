// Rows that a block of threads keeps in its registers, in packs of 16 bytes.
//
// Rows of whole packs that fit there are read once. All others, and float64, are read several times, by other kernels.
// Which of them runs depends on width and types alone, not on addresses, so equal values give equal bits: tensors that
// don't begin where packs may are copied.
#pragma once

#include "burnlike/row_tensor.h"
#include "row_sums.h"

namespace burnlike::cuda {

template <class Element>
inline constexpr int kRowPack = 16 / sizeof(Element);

// A thread takes the packs threadIdx.x, threadIdx.x + blockDim.x, ... of a row: up to kPacks.
template <int kPacks, class Run>
__device__ __forceinline__ void for_packs(int64_t packs, Run&& run) {
#pragma unroll
  for (int index = 0; index < kPacks; ++index) {
    const int64_t pack = threadIdx.x + static_cast<int64_t>(index) * blockDim.x;
    if (pack < packs) run(index, pack);
  }
}

// Packs of a row for each thread of its block: a power of two, or 0 for the other kernels. Only with the most packs are
// there more than `threads`.
inline int packs_of_thread(int64_t width, ElementKind kind, int most, int threads = kMaxRowThreads) {
  const int64_t pack = 16 / element_size(kind);
  if (kind == ElementKind::kFloat64 || width % pack != 0) return 0;
  for (int packs = 1; packs <= most; packs *= 2) {
    if (width / pack <= packs * (packs == most ? kMaxRowThreads : threads)) return packs;
  }
  return 0;
}

inline int row_pack_threads(int64_t width, ElementKind kind, int packs) {
  return packs == 0 ? row_threads(width) : row_threads((width * element_size(kind) / 16 + packs - 1) / packs);
}

// The tensor itself where kernels can use it, else a copy.
inline Tensor packed(const Tensor& any, int packs) {
  const Tensor tensor = as_contiguous(any);
  return packs == 0 || is_aligned(tensor.const_data_ptr(), 16) ? tensor : contiguous_copy(tensor);
}

// The same of a tensor whose rows may be at one distance.
inline Tensor with_packed_rows(const Tensor& any, int packs) {
  const int64_t bytes = element_size(element_kind(any));
  const int64_t stride = row_stride(any);
  const bool fits = packs == 0 || stride * bytes % 16 == 0;
  return stride >= 0 && fits && is_aligned(any.const_data_ptr(), packs == 0 ? bytes : 16) ? any : contiguous_copy(any);
}

}  // namespace burnlike::cuda
