// The kernels of attention: their bodies are in attention.inl.
#pragma once

#include <cstdint>

#include "burnlike/attention.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Some keys (rows) of one head with some of its queries (columns). In each row the first `row * hidden_step` columns
// are hidden.
template <class Accumulate>
struct AttentionTile {
  Accumulate* scores;            // k q^T, becomes the weights
  Accumulate* grads;             // v dO^T, the gradients of the weights, becomes those of k q^T
  const Accumulate* bias;        // added to the scaled scores, or null
  const Accumulate* largest;     // of each column: its largest score
  const Accumulate* logarithms;  // of each column: of the sum of the exponentials of scores less the largest
  const Accumulate* deltas;      // of each column
  Accumulate scale;
  int64_t rows;
  int64_t columns;
  int64_t hidden_step;
};

template <class Element>
struct AttentionKernels {
  void (*tile)(const AttentionTile<accumulate_t<Element>>&);
  // Adds the scores of a tile to the largest and the sums of exponentials of each column so far.
  void (*add)(const AttentionTile<accumulate_t<Element>>&, accumulate_t<Element>* largest, accumulate_t<Element>* sums);
  accumulate_t<Element> (*dot)(const Element* x, const Element* y, int64_t count);
};

BURNLIKE_KERNELS(PerElement<AttentionKernels>, attention_kernels)

}  // namespace burnlike::cpu
