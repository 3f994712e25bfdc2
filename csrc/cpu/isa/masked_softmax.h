// The kernels of softmax with hidden columns: their bodies are in masked_softmax.inl.
#pragma once

#include <cstdint>

#include "burnlike/masked_softmax.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Rows [begin, end); `scratch` has room for a row, in whole lanes of 128 bytes.
template <class Element>
struct MaskedSoftmaxKernels {
  using Accumulate = accumulate_t<Element>;

  void (*forward)(const SoftmaxForward<Element>& pass, Accumulate* scratch, int64_t begin, int64_t end);
  void (*backward)(const SoftmaxBackward<Element>& pass, int64_t begin, int64_t end);
};

BURNLIKE_KERNELS(PerElement<MaskedSoftmaxKernels>, masked_softmax_kernels)

}  // namespace burnlike::cpu
