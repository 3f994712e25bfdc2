// The kernels of an LSTM's steps: their bodies are in lstm.inl.
#pragma once

#include <cstdint>

#include "kernel_table.h"

namespace burnlike::cpu {

// Rows of `columns` values each, one or more apart.
template <class Value>
struct StepRows {
  Value* data;
  int64_t stride;

  Value* row(int64_t index) const { return data + index * stride; }
};

// sums[rows, panels] = x W, of W as `pack` writes it. Each sum is over `depth` in its order, whatever the rows.
template <class Element>
struct StepProduct {
  StepRows<const Element> x;
  const Element* packed;
  StepRows<float> sums;
  int64_t rows;
  int64_t depth;
  int64_t columns;
  bool has_bfloat16_products;  // of the processor, and the weight is packed for them
};

// One step of a row, of `size` values, whose four gates are input, forget, cell and output.
template <class Element>
struct LstmForward {
  const float* sums;  // [4, size], of the hidden state
  Element* gates;     // [4, size]: the sums of the input, and then the gates themselves
  const float* before;
  float* cell;
  Element* hidden;
  int64_t size;
};

template <class Element>
struct LstmBackward {
  const float* sums;     // [size], the gradient by the step after this one
  const Element* grad;   // [size], of the output, or null
  const Element* gates;  // [4, size]
  const float* before;
  const float* cell;
  float* grad_cell;     // that of the cell, and then of the cell before
  Element* grad_gates;  // [4, size]
  int64_t size;
};

template <class Element>
struct LstmKernels {
  int64_t (*packed_size)(int64_t depth, int64_t columns);
  // The weight's value at `depth` and `column` is at `depth * down + column * right`. Panels [begin, end).
  void (*pack)(
      const Element* weight, int64_t down, int64_t right, int64_t depth, int64_t columns, bool in_pairs,
      Element* packed, int64_t begin, int64_t end);
  void (*product)(const StepProduct<Element>&);
  void (*forward)(const LstmForward<Element>&);
  void (*backward)(const LstmBackward<Element>&);
};

struct LstmTable {
  LstmKernels<float> float32;
  LstmKernels<BFloat16> bfloat16;
  int64_t panel;  // columns that are packed side by side

  const LstmKernels<float>& operator()(float) const { return float32; }
  const LstmKernels<BFloat16>& operator()(BFloat16) const { return bfloat16; }
};

BURNLIKE_KERNELS(LstmTable, lstm_kernels)

}  // namespace burnlike::cpu
