// The arithmetic of rotary positions, for CPU and CUDA.
//
// A pair (a, b) is turned by an angle t: (a cos t - b sin t, a sin t + b cos t) (Su et al. 2021, eq. 34). The gradient
// is turned by -t. Where the two values have angles of their own, t and u, the pair becomes
// (a cos t - b sin t, a sin u + b cos u), as in transformers' code, and the gradient of it is the transpose of that.
#pragma once

#include "macros.h"

namespace burnlike {

template <class Accumulate>
struct RotaryPair {
  Accumulate first;
  Accumulate second;
};

// A sum and a difference side by side would be one instruction of GCC 12 that rounds once (vfmaddsub), even with
// -ffp-contract=off, on some instruction sets and in some loops. So both are sums, and -sine is given.
template <class Accumulate>
BURNLIKE_INLINE RotaryPair<Accumulate> rotary_turned(
    Accumulate first, Accumulate second, Accumulate cosine, Accumulate sine, Accumulate minus_sine,
    Accumulate second_cosine) {
  return {first * cosine + second * minus_sine, first * sine + second * second_cosine};
}

}  // namespace burnlike
