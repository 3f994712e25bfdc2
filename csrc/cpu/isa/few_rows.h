// The kernels of products of a few rows with a weight, which is read where it lies: their bodies are in few_rows.inl.
#pragma once

#include <cstdint>

#include "kernel_table.h"

namespace burnlike::cpu {

// Columns of a tile: so many sums of 8 rows stay in a core's first cache.
inline constexpr int64_t kTileColumns = 512;
// Rows that have the same products at a time.
inline constexpr int64_t kRowsAtATime = 8;

// y = x W + bias for some columns of y, at most kTileColumns; `adds` adds it to what is in y. The weight begins at the
// first of them: `stride` is from row to row of `[d_input, columns]`, or of its transpose `[columns, d_input]`.
template <class Weight>
struct FewRows {
  const float* x;
  int64_t x_stride;
  const float* packed;  // the same as `[rows / kRowsAtATime, d_input, kRowsAtATime]`, with fewer rows in the last part
  const Weight* weight;
  int64_t stride;
  const float* input_scale;  // of each row of `[d_input, columns]`, or null
  const float* bias;         // or null
  float* y;
  int64_t y_stride;
  int64_t rows;
  int64_t d_input;
  int64_t columns;
  bool adds;
  bool has_bfloat16_products;  // of the processor; x is rounded to bfloat16 by them
};

template <class Weight>
struct FewRowsKernels {
  void (*plain)(const FewRows<Weight>&);
  void (*transposed)(const FewRows<Weight>&);
};

struct FewRowsTable {
  FewRowsKernels<float> float32;
  FewRowsKernels<BFloat16> bfloat16;
  FewRowsKernels<int8_t> int8;

  const FewRowsKernels<float>& operator()(float) const { return float32; }
  const FewRowsKernels<BFloat16>& operator()(BFloat16) const { return bfloat16; }
  const FewRowsKernels<int8_t>& operator()(int8_t) const { return int8; }
};

BURNLIKE_KERNELS(FewRowsTable, few_rows_kernels)

}  // namespace burnlike::cpu
