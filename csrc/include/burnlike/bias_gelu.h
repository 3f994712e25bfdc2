// The arithmetic of one value of gelu(x + bias), for CPU and CUDA.
//
// With f for gelu, y = f(x + bias), so that dx = dy * f'(x + bias), and dbias is the sum of dx over all rows.
#pragma once

#include "activations.h"

namespace burnlike {

template <class Activation, class Accumulate>
BURNLIKE_INLINE Accumulate bias_gelu_output(Accumulate x, Accumulate bias) {
  return Activation::value(x + bias);
}

template <class Activation, class Accumulate>
BURNLIKE_INLINE Accumulate bias_gelu_grad(Accumulate grad, Accumulate x, Accumulate bias) {
  return grad * Activation::parts(x + bias).slope;
}

}  // namespace burnlike
