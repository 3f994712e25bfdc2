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

// The same with `small`, which is Activation::decayed(gate).
template <class Activation, class Accumulate>
BURNLIKE_INLINE Accumulate glu_output_by(Accumulate gate, Accumulate up, Accumulate small) {
  return Activation::value_by(gate, small) * up;
}

template <class Accumulate>
struct GluGrads {
  Accumulate gate;
  Accumulate up;
};

template <class Accumulate>
BURNLIKE_INLINE GluGrads<Accumulate> glu_grads_of(
    Accumulate grad, Accumulate up, const ActivationParts<Accumulate>& activated) {
  return {grad * up * activated.slope, grad * activated.value};
}

template <class Activation, class Accumulate>
BURNLIKE_INLINE GluGrads<Accumulate> glu_grads(Accumulate grad, Accumulate gate, Accumulate up) {
  return glu_grads_of(grad, up, Activation::parts(gate));
}

template <class Activation, class Accumulate>
BURNLIKE_INLINE GluGrads<Accumulate> glu_grads_by(Accumulate grad, Accumulate gate, Accumulate up, Accumulate small) {
  return glu_grads_of(grad, up, Activation::parts_by(gate, small));
}

}  // namespace burnlike
