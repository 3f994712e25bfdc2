// The kernels of rotary positions: their bodies are in rotary.inl.
#pragma once

#include <cstdint>

#include "burnlike/rotary.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Strides of rows [batch, outer, inner], in values.
struct RowStrides {
  int64_t batch, outer, inner;

  BURNLIKE_INLINE int64_t at(int64_t batch_index, int64_t outer_index, int64_t inner_index) const {
    return batch * batch_index + outer * outer_index + inner * inner_index;
  }
};

// The rows of a tensor of heads: `outer` and `inner` are its heads and its sequence, whichever memory has inside. Sines
// are multiplied by `sign`; a compiler that knew `minus_sign` to be its negative would subtract.
struct RotaryRows {
  int64_t outer_size, inner_size, width, half;
  RowStrides x, y, cosine, sine;
  float sign, minus_sign;
  bool interleaved, whole;
};

// Turns rows [begin, end) of x, by tables of its own type or of float32.
template <class Element>
struct RotaryKernels {
  template <class Table>
  using Turn = void (*)(
      const RotaryRows& rows, const Element* x, const Table* cosine, const Table* sine, Element* y, int64_t begin,
      int64_t end);

  Turn<Element> own_tables;
  Turn<float> float32_tables;
};

BURNLIKE_KERNELS(PerElement<RotaryKernels>, rotary_kernels)

}  // namespace burnlike::cpu
