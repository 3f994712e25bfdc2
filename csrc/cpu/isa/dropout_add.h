// The kernels of residual + dropout(x): their bodies are in dropout_add.inl.
#pragma once

#include <cstdint>

#include "burnlike/dropout_add.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Values [begin, end). The residual, the result and its gradient have the element type or, for `mixed`, that which is
// computed in.
template <class Element>
struct DropoutAddKernels {
  using Accumulate = accumulate_t<Element>;
  using Drop = const Dropping<Accumulate>&;

  void (*forward)(const Element* x, const Element* residual, Element* y, int64_t begin, int64_t end, Drop drop);
  void (*mixed_forward)(
      const Element* x, const Accumulate* residual, Accumulate* y, int64_t begin, int64_t end, Drop drop);
  void (*backward)(const Element* grad, Element* grad_x, int64_t begin, int64_t end, Drop drop);
  void (*mixed_backward)(const Accumulate* grad, Element* grad_x, int64_t begin, int64_t end, Drop drop);
};

BURNLIKE_KERNELS(PerElement<DropoutAddKernels>, dropout_add_kernels)

}  // namespace burnlike::cpu
