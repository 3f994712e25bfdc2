// The kernels of attention: their bodies are in attention.inl.
#pragma once

#include <cstdint>

#include "burnlike/attention.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// The type in which products of matrices are formed: float32 for float16, which few processors multiply.
template <class Element>
struct ProductType {
  using type = Element;
};
template <>
struct ProductType<Float16> {
  using type = float;
};
template <class Element>
using product_t = typename ProductType<Element>::type;

// Some keys (rows) of one head with some of its queries (columns). What a product lost when it was rounded is in
// `_low`, or null. In each row the first `row * hidden_step` columns are hidden.
template <class Product>
struct AttentionTile {
  using Accumulate = accumulate_t<Product>;

  Product* scores;  // k q^T, becomes the weights
  Product* grads;   // v dO^T, the gradients of the weights, becomes those of k q^T
  const Product* scores_low;
  const Product* grads_low;
  const Accumulate* bias;       // added to the scaled scores, or null
  const Accumulate* logsumexp;  // of each column
  const Accumulate* deltas;     // of each column
  Accumulate scale;
  int64_t rows;
  int64_t columns;
  int64_t hidden_step;
};

// The scores of one query with `count` keys, of which it sees the first ones; they become the weights, before they are
// divided by their sum. `row` has place for them and 31 more.
template <class Product>
struct AttentionRow {
  using Accumulate = accumulate_t<Product>;

  Product* scores;
  const Product* scores_low;
  Accumulate* row;
  Accumulate scale;
  int64_t seen;
  int64_t count;
};

// Of a row's weights: their sum, and the logarithm of the sum of the scores' exponentials.
template <class Accumulate>
struct AttentionSum {
  Accumulate sum, logsumexp;
};

template <class Element>
struct AttentionKernels {
  void (*tile)(const AttentionTile<product_t<Element>>&);

  AttentionSum<accumulate_t<Element>> (*softmax)(const AttentionRow<product_t<Element>>&);

  // A row of the output from the weights' product, and what it lost when it was rounded, or null.
  void (*divide)(
      const product_t<Element>* product, const product_t<Element>* low, accumulate_t<Element> sum, Element* output,
      int64_t width);

  accumulate_t<Element> (*dot)(const Element* x, const Element* y, int64_t count);
};

BURNLIKE_KERNELS(PerElement<AttentionKernels>, attention_kernels)

}  // namespace burnlike::cpu
