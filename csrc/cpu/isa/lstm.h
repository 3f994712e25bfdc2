// The kernels of an LSTM's steps: their bodies are in lstm.inl.
#pragma once

#include <cstdint>
#include <type_traits>

#include "burnlike/functions.h"
#include "burnlike/row_places.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Rows of a product that are computed of a copy of x in one piece: so many groups of rows, whatever the vectors.
inline constexpr int64_t kOuterRows = 48;

// Memory that is needed next: a product asks for its lines meanwhile, so that nobody waits for them later.
struct StepAhead {
  const char* data;
  int64_t rows, stride, bytes;  // rows of so many bytes, and so many apart
};

// sums = x W for rows of x, or sums += x W, of W as `pack` writes it. Each sum is over `depth` in its order, whatever
// the rows.
template <class Element>
struct StepProduct {
  RowPlaces<const Element> x;
  const accumulate_t<Element>* packed;
  RowPlaces<accumulate_t<Element>> sums;  // of whole panels
  int64_t rows, depth, columns;
  bool in_pairs, adds;
  StepAhead ahead;
};

// W as `[depth, columns]`, of any strides, and how it is packed: in pairs, for processors that multiply bfloat16.
template <class Element>
struct StepWeight {
  const Element* data;
  int64_t down, right, depth, columns;
  bool in_pairs;
};

// One step of a row of `size` units. The gates are input, forget, cell and output, one behind the other.
template <class Element>
struct LstmForward {
  const accumulate_t<Element>* sums;  // [4, size], of the input and the hidden state
  const accumulate_t<Element>* bias;  // [4, size]
  Element* gates;                     // [4, size]
  const accumulate_t<Element>* before;
  accumulate_t<Element>* cell;
  Element* hidden;
  int64_t size;
};

template <class Element>
struct LstmBackward {
  const accumulate_t<Element>* sums;  // the gradient by the step after this one
  const Element* grad;                // of the output
  Element* gates;                     // [4, size], and then their gradients
  const accumulate_t<Element>* before;
  const accumulate_t<Element>* cell;
  accumulate_t<Element>* grad_cell;  // that of the cell, and then of the cell before
  accumulate_t<Element>* grad_bias;  // [4, size], to which they are added
  int64_t size;
};

template <class Element>
struct LstmKernels {
  int64_t panel;  // columns that are packed side by side
  void (*pack)(const StepWeight<Element>& weight, accumulate_t<Element>* packed, int64_t begin, int64_t end);
  void (*product)(const StepProduct<Element>&);
  void (*outer)(const StepProduct<Element>&);  // of x transposed, of at most kOuterRows columns
  void (*forward)(const LstmForward<Element>&);
  void (*backward)(const LstmBackward<Element>&);
};

BURNLIKE_KERNELS(PerElement<LstmKernels>, lstm_kernels)

}  // namespace burnlike::cpu
