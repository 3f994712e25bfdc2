// Activations with their derivatives, for CPU and CUDA: `value(x)`, and `parts(x)` where both are needed.
#pragma once

#include "functions.h"

namespace burnlike {

// An activation at one place.
template <class Accumulate>
struct ActivationParts {
  Accumulate value;
  Accumulate slope;
};

// x * sigmoid(x) (Elfwing et al. 2018, eq. 1), whose derivative is s * (1 + x * (1 - s)) with s = sigmoid(x) (eq. 4).
struct Silu {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return x / (Accumulate(1) + exponential(-x));
  }

  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts(Accumulate x) {
    const Accumulate decay = exponential(-x);
    const Accumulate s = Accumulate(1) / (Accumulate(1) + decay);
    // 1 - s, which loses its digits where s is near 1.
    const Accumulate rest = x < Accumulate(0) ? Accumulate(1) - s : decay * s;
    return {x / (Accumulate(1) + decay), s * (Accumulate(1) + x * rest)};
  }
};

}  // namespace burnlike
