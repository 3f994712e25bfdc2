// What a step of any rule does beside its formula. For CPU and CUDA; the pointers are to memory of the tensors' device.
#pragma once

#include <cstdint>

#include "macros.h"

namespace burnlike {

struct StepOptions {
  double grad_scale;      // gradients are multiplied by it,
  const double* factors;  // and by one of these; null for none
  int64_t factor_stride;  // 0 for one factor, 1 for one for each parameter
  double clip_value;      // then they are cut to -clip_value..clip_value
  const float* skip;      // where not zero, only gradients to be zeroed are changed; may be null
  const double* skipped;  // subtracted from every time; may be null
  bool zero_grads;
  bool stochastic;  // rounding of weights and moments to 16 and 8 bits
  uint64_t seed;
};

// Below, `tensor` is the place of the parameter in the list.

BURNLIKE_INLINE double gradient_scale(const StepOptions& options, int64_t tensor) {
  return options.factors == nullptr ? options.grad_scale
                                    : options.grad_scale * options.factors[tensor * options.factor_stride];
}

BURNLIKE_INLINE double effective_time(const StepOptions& options, int64_t time) {
  return static_cast<double>(time) - (options.skipped == nullptr ? 0.0 : *options.skipped);
}

// What is done to every value of a gradient.
template <class Accumulate>
struct GradientScalars {
  Accumulate scale;
  Accumulate clip;
};

template <class Accumulate>
BURNLIKE_INLINE GradientScalars<Accumulate> gradient_scalars(const StepOptions& options, int64_t tensor) {
  return {static_cast<Accumulate>(gradient_scale(options, tensor)), static_cast<Accumulate>(options.clip_value)};
}

// NaN stays NaN, as both comparisons are false.
template <class Accumulate>
BURNLIKE_INLINE Accumulate prepared(Accumulate g, const GradientScalars<Accumulate>& scalars) {
  g = g * scalars.scale;
  g = g > scalars.clip ? scalars.clip : g;
  return g < -scalars.clip ? -scalars.clip : g;
}

}  // namespace burnlike
