// The table of CPU kernels: one function per op and element type, compiled once for each instruction set.
//
// An op finds its kernel in `kernels()`. To add one: a member here, its body in `isa/<op>.inl` and a line in
// `isa/table.inl`.
#pragma once

#include <cstdint>

#include "burnlike/adamw_step.h"
#include "burnlike/element.h"

namespace burnlike::cpu {

// Rows [begin, end) of contiguous [rows, width] tensors; gamma has the accumulation type.
template <class Element>
struct RmsNormKernels {
  using Accumulate = accumulate_t<Element>;

  void (*forward)(
      const Element* x, const Accumulate* gamma, Element* y, int64_t begin, int64_t end, int64_t width, double epsilon);

  // Writes grad_x and adds to grad_gamma, which has `width` values.
  void (*backward)(
      const Element* grad, const Element* x, const Accumulate* gamma, Element* grad_x, Accumulate* grad_gamma,
      int64_t begin, int64_t end, int64_t width, double epsilon);
};

// Values [begin, end) of one parameter. `max_moments_2` is null without amsgrad.
template <class Element, class Moment>
using AdamwKernel = void (*)(
    Element* params, const Element* grads, Moment* moments_1, Moment* moments_2, Moment* max_moments_2, int64_t begin,
    int64_t end, const AdamwScalars<accumulate_t<Element>>& scalars, bool cautious);

// Converts values [begin, end); whether a finite one became infinite. One for each type of source, by its ElementKind.
struct ConvertKernels {
  bool (*from[4])(const void* sources, void* targets, int64_t begin, int64_t end);
};

struct Kernels {
  const char* isa;

  RmsNormKernels<float> rms_norm_float32;
  RmsNormKernels<double> rms_norm_float64;
  RmsNormKernels<BFloat16> rms_norm_bfloat16;
  RmsNormKernels<Float16> rms_norm_float16;

  AdamwKernel<float, float> adamw_float32;
  AdamwKernel<double, double> adamw_float64;
  AdamwKernel<BFloat16, BFloat16> adamw_bfloat16;
  AdamwKernel<BFloat16, float> adamw_bfloat16_float32;
  AdamwKernel<Float16, Float16> adamw_float16;
  AdamwKernel<Float16, float> adamw_float16_float32;

  ConvertKernels convert[4];  // for each type of target, by its ElementKind
};

// The kernels of the instruction set in use: the best one that this machine has, unless one was chosen.
const Kernels& kernels();

extern const Kernels default_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
#endif

}  // namespace burnlike::cpu
