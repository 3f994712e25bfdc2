// The kernels of RMS and layer normalization: their bodies are in norms.inl.
#pragma once

#include <cstdint>

#include "burnlike/norms.h"
#include "kernel_table.h"

namespace burnlike::cpu {

template <class Element>
using CpuNormForward = NormForward<Element, accumulate_t<Element>>;
template <class Element>
using CpuNormBackward = NormBackward<Element, accumulate_t<Element>>;

// Rows [begin, end) of a normalization.
template <class Element>
struct NormKernels {
  void (*forward)(const CpuNormForward<Element>&, int64_t begin, int64_t end);

  // Writes the gradient of x and adds those of gamma and, behind them, of beta to `sums`, `width` values each.
  void (*backward)(const CpuNormBackward<Element>&, accumulate_t<Element>* sums, int64_t begin, int64_t end);
};

BURNLIKE_KERNELS(PerElement<NormKernels>, rms_norm_kernels)
BURNLIKE_KERNELS(PerElement<NormKernels>, layer_norm_kernels)

}  // namespace burnlike::cpu
