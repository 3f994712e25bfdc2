// The kernels of batch normalization of rows: their bodies are in batch_norm.inl.
#pragma once

#include <cstdint>

#include "burnlike/activations.h"
#include "burnlike/element.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Of each column: its mean, gamma / sqrt(variance + epsilon), beta, and backward the means that are taken off the
// gradient: of it, and of its product with the centered x, over variance + epsilon.
template <class Accumulate>
struct Columns {
  const Accumulate* mean;
  const Accumulate* scale;
  const Accumulate* beta;
  const Accumulate* mean_grad;
  const Accumulate* pull;
};

// Rows [begin, end) of `width` values. `y` is the result where there is a residual and an activation, else null.
template <class Element>
struct BatchNormKernels {
  using Accumulate = accumulate_t<Element>;

  // The mean of each column, and the sum of squares of what is left of it.
  void (*moments)(const Element* x, Accumulate* mean, Accumulate* squares, int64_t rows, int64_t width);

  void (*forward)(
      const Element* x, const Element* residual, Element* y, const Columns<Accumulate>& columns, int64_t begin,
      int64_t end, int64_t width);

  // Adds to `sums` the gradient of each column, and behind these its products with the centered x. `kept` gets what is
  // behind the activation, for `backward`: it is the gradient of the residual, or else that of x for now.
  void (*sums)(
      const Element* grad, const Element* x, const Element* y, Element* kept, Accumulate* sums,
      const Columns<Accumulate>& columns, int64_t begin, int64_t end, int64_t width);

  // `grad_residual`, which `sums` wrote, is null where there is no residual.
  void (*backward)(
      const Element* grad, const Element* x, const Element* grad_residual, Element* grad_x,
      const Columns<Accumulate>& columns, int64_t begin, int64_t end, int64_t width);
};

BURNLIKE_KERNELS(PerElement<BatchNormKernels>, batch_norm_kernels)
BURNLIKE_KERNELS(PerElement<BatchNormKernels>, relu_batch_norm_kernels)
BURNLIKE_KERNELS(PerElement<BatchNormKernels>, silu_batch_norm_kernels)
BURNLIKE_KERNELS(PerElement<BatchNormKernels>, hardswish_batch_norm_kernels)

}  // namespace burnlike::cpu
