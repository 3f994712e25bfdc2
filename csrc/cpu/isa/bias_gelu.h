// The kernels of gelu(x + bias): their bodies are in bias_gelu.inl.
#pragma once

#include <cstdint>

#include "burnlike/bias_gelu.h"
#include "burnlike/row_places.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Rows [begin, end) of `width` values; y and grad_x are contiguous.
template <class Element>
struct BiasGeluKernels {
  using Accumulate = accumulate_t<Element>;
  using Input = const RowPlaces<const Element>&;

  void (*forward)(Input x, const Accumulate* bias, Element* y, int64_t begin, int64_t end, int64_t width);

  // Adds the gradient of the bias to `sums`.
  void (*backward)(
      Input grad, Input x, const Accumulate* bias, Element* grad_x, Accumulate* sums, int64_t begin, int64_t end,
      int64_t width);
};

BURNLIKE_KERNELS(PerElement<BiasGeluKernels>, bias_gelu_kernels)
BURNLIKE_KERNELS(PerElement<BiasGeluKernels>, tanh_bias_gelu_kernels)
BURNLIKE_KERNELS(PerElement<BiasGeluKernels>, sigmoid_bias_gelu_kernels)

}  // namespace burnlike::cpu
