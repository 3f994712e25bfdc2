// The arithmetic of one value of a gated linear unit, for CPU and CUDA.
//
// y = f(gate) * up (Shazeer 2020, eq. 5), so that dgate = dy * up * f'(gate) and dup = dy * f(gate).
#pragma once

#include "activations.h"

namespace burnlike {

template <class Activation, class Accumulate>
BURNLIKE_INLINE Accumulate glu_output(Accumulate gate, Accumulate up) {
  return Activation::value(gate) * up;
}

template <class Accumulate>
struct GluGrads {
  Accumulate gate;
  Accumulate up;
};

template <class Activation, class Accumulate>
BURNLIKE_INLINE GluGrads<Accumulate> glu_grads(Accumulate grad, Accumulate gate, Accumulate up) {
  const ActivationParts<Accumulate> activated = Activation::parts(gate);
  return {grad * up * activated.slope, grad * activated.value};
}

}  // namespace burnlike
