// RMS and layer normalization of rows, for CPU and CUDA: what a kernel gets, and the arithmetic of one value.
//
// y = (x - m) * r * gamma + beta with r = 1 / sqrt(mean((x - m)^2) + epsilon). In layer normalization m is the mean of
// the row (Ba et al. 2016, eq. 4); in RMS normalization m and beta are 0 (Zhang & Sennrich 2019, eq. 4). With
// g = dy * gamma, s = sum(g * (x - m)) and b = mean(g), which is 0 in RMS normalization, the gradients are
//   dx     = (g - b - (x - m) * r * p) * r with p = r * s / d, whose parts have the sizes of g, not powers of x's
//   dgamma = sum over rows of dy * (x - m) * r
//   dbeta  = sum over rows of dy
#pragma once

#include "element.h"
#include "scalar_math.h"

namespace burnlike {

struct RmsNorm {
  static constexpr bool kCentered = false;
};

struct LayerNorm {
  static constexpr bool kCentered = true;
};

// The tensors [rows, width] and the weights [width] of a forward pass. What is read has its rows at any distance on
// CUDA and side by side on CPUs; what is written has them side by side.
template <class Element, class Weight>
struct NormForward {
  const Element* x;
  const Element* residual;  // added to x before; null without one
  const Weight* gamma;
  const Weight* beta;  // null without one
  Element* y;
  Element* sum;  // x + residual, written where there is one
  int64_t width, x_stride, residual_stride;
  accumulate_t<Element> epsilon;
};

// Those of a backward pass.
template <class Element, class Weight>
struct NormBackward {
  const Element* grad;
  const Element* grad_sum;  // added to the gradient of x; null without one
  const Element* x;         // what was normalized
  const Weight* gamma;
  Element* grad_x;
  int64_t width, grad_stride, grad_sum_stride, x_stride;
  accumulate_t<Element> epsilon;
};

// r, from the sum of the squares of a row's x - m.
template <class Accumulate>
BURNLIKE_INLINE Accumulate norm_scale(Accumulate sum_of_squares, Accumulate width, Accumulate epsilon) {
  return Accumulate(1) / square_root(sum_of_squares / width + epsilon);
}

// p, from s.
template <class Accumulate>
BURNLIKE_INLINE Accumulate norm_pull(Accumulate scale, Accumulate dot, Accumulate width) {
  return scale * dot / width;
}

// y without beta, from x - m.
template <class Accumulate>
BURNLIKE_INLINE Accumulate norm_output(Accumulate centered, Accumulate gamma, Accumulate scale) {
  return centered * scale * gamma;
}

// dx, from g - b and x - m.
template <class Accumulate>
BURNLIKE_INLINE Accumulate norm_grad_x(Accumulate slope, Accumulate centered, Accumulate scale, Accumulate pull) {
  return (slope - centered * scale * pull) * scale;
}

template <class Accumulate>
BURNLIKE_INLINE Accumulate norm_grad_gamma(Accumulate grad, Accumulate centered, Accumulate scale) {
  return grad * (centered * scale);
}

}  // namespace burnlike
