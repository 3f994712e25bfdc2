// The kernels of gated linear units: their bodies are in glu.inl.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "burnlike/glu.h"
#include "burnlike/row_places.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Rows [begin, end) of `width` values; y is contiguous.
template <class Element>
struct GluKernels {
  using Input = const RowPlaces<const Element>&;
  using Output = const RowPlaces<Element>&;

  void (*forward)(Input gate, Input up, Element* y, int64_t begin, int64_t end, int64_t width);
  void (*backward)(
      Input grad, Input gate, Input up, Output grad_gate, Output grad_up, int64_t begin, int64_t end, int64_t width);
};

BURNLIKE_KERNELS(PerElement<GluKernels>, swiglu_kernels)
BURNLIKE_KERNELS(PerElement<GluKernels>, geglu_kernels)
BURNLIKE_KERNELS(PerElement<GluKernels>, tanh_geglu_kernels)

}  // namespace burnlike::cpu
