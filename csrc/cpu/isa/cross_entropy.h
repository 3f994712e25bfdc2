// The kernels of cross-entropy: their bodies are in cross_entropy.inl.
#pragma once

#include <cstdint>

#include "burnlike/cross_entropy.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Rows [begin, end) of contiguous logits [rows, classes]; statistics have two values for each row.
template <class Element>
struct CrossEntropyKernels {
  using Accumulate = accumulate_t<Element>;
  using Options = CrossEntropyOptions<Accumulate>;

  // Adds the losses and the targets' weights to `sums`; `losses` may be null.
  void (*forward)(
      const Element* logits, const int64_t* targets, const Options& options, Accumulate* statistics, Accumulate* losses,
      double* sums, int64_t begin, int64_t end);

  // `grad` has one value for each row, or one for all if grad_step is 0; `grads` may be the logits.
  void (*backward)(
      const Accumulate* grad, int64_t grad_step, double divisor, const Element* logits, const int64_t* targets,
      const Options& options, const Accumulate* statistics, Element* grads, int64_t begin, int64_t end);
};

BURNLIKE_KERNELS(PerElement<CrossEntropyKernels>, cross_entropy_kernels)

}  // namespace burnlike::cpu
