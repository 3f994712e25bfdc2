// The kernels of products in 8 bits: their bodies are in int8_linear.inl.
#pragma once

#include <cstdint>

#include "kernel_table.h"

namespace burnlike::cpu {

// Rows of the left side, and columns of the right side, that are packed together: a strip of them is
// `[depth / 4, lanes, 4]` bytes, so that four products of a lane lie in one word.
inline constexpr int64_t kInt8Lanes = 16;  // of the right side; the left side has two strips of half as many
inline constexpr int64_t kInt8Rows = 8;
inline constexpr int64_t kInt8Group = 4;
// Columns that are multiplied at once: three strips, whose sums fill 24 registers.
inline constexpr int64_t kInt8Panel = 3 * kInt8Lanes;

// Up to kInt8Lanes rows of the left side, or columns of the right side, rounded and packed.
template <class Element>
struct Int8Packing {
  const Element* values;
  int64_t stride;       // from lane to lane if those of one lane lie side by side, else from place to place
  bool is_along_depth;  // the values of one lane lie side by side, else those of one place
  int64_t lanes;
  int64_t depth;
  bool is_left;      // signed bytes in two strips, with their sums; else unsigned bytes, 128 more, in one strip
  uint8_t* strips;   // kInt8Lanes * depth, rounded up to whole groups
  float* scales;     // kInt8Lanes of them
  int32_t* offsets;  // of the left side: -128 times the sum of each lane
};

// kInt8Rows rows of `product[rows, columns]`, up to kInt8Panel columns.
template <class Element>
struct Int8Tile {
  const uint8_t* left;
  const uint8_t* right;  // strips one behind the other
  int64_t groups;        // of the depth
  const int32_t* offsets;
  const float* row_scales;
  const float* column_scales;
  const float* bias;  // or null
  Element* product;
  int64_t stride;
  int64_t rows;
  int64_t columns;
};

template <class Element>
struct Int8Kernels {
  void (*pack)(const Int8Packing<Element>&);
  void (*multiply)(const Int8Tile<Element>&);
  void (*multiply_by_vnni)(const Int8Tile<Element>&);  // the same where the processor has these instructions
};

BURNLIKE_KERNELS(PerFloatOrBFloat16<Int8Kernels>, int8_linear_kernels)

}  // namespace burnlike::cpu
