// The arithmetic of one row of RMS normalization, for CPU and CUDA.
//
// y = x / rms * gamma with rms = sqrt(mean(x^2) + epsilon) (Zhang & Sennrich 2019, eq. 4). With r = 1 / rms and
// s = sum(dy * gamma * x) the gradients are
//   dx     = r * dy * gamma - x * r^3 * s / d
//   dgamma = sum over rows of dy * x * r
#pragma once

#include "scalar_math.h"

namespace burnlike {

// r, from the sum of a row's squares.
template <class Accumulate>
BURNLIKE_INLINE Accumulate rms_norm_scale(Accumulate sum_of_squares, Accumulate width, Accumulate epsilon) {
  return Accumulate(1) / square_root(sum_of_squares / width + epsilon);
}

// r^3 * s / d, the factor of x in dx.
template <class Accumulate>
BURNLIKE_INLINE Accumulate rms_norm_pull(Accumulate scale, Accumulate dot, Accumulate width) {
  return scale * scale * scale * dot / width;
}

template <class Accumulate>
BURNLIKE_INLINE Accumulate rms_norm_output(Accumulate x, Accumulate gamma, Accumulate scale) {
  return x * scale * gamma;
}

template <class Accumulate>
BURNLIKE_INLINE Accumulate rms_norm_grad_x(
    Accumulate grad, Accumulate gamma, Accumulate x, Accumulate scale, Accumulate pull) {
  return grad * gamma * scale - x * pull;
}

template <class Accumulate>
BURNLIKE_INLINE Accumulate rms_norm_grad_gamma(Accumulate grad, Accumulate x, Accumulate scale) {
  return grad * (x * scale);
}

}  // namespace burnlike
