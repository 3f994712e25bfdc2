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

// sigmoid(x), and 1 - sigmoid(x) with all its digits where that is small.
template <class Accumulate>
struct Sigmoids {
  Accumulate value;
  Accumulate rest;
};

template <class Accumulate>
BURNLIKE_INLINE Sigmoids<Accumulate> sigmoids(Accumulate x) {
  const Accumulate decay = exponential(-x);
  const Accumulate small = Accumulate(1) / (Accumulate(1) + decay);
  const Accumulate rest = decay * small;
  // The quotient is rounded with a relative error, the difference with one of a last place of 1.
  return x < Accumulate(0) ? Sigmoids<Accumulate>{small, Accumulate(1) - small}
                           : Sigmoids<Accumulate>{Accumulate(1) - rest, rest};
}

// x * sigmoid(x) (Elfwing et al. 2018, eq. 1), whose derivative is s * (1 + x * (1 - s)) with s = sigmoid(x) (eq. 4).
struct Silu {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return x / (Accumulate(1) + exponential(-x));
  }

  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts(Accumulate x) {
    const Sigmoids<Accumulate> at = sigmoids(x);
    return {x * at.value, at.value * (Accumulate(1) + x * at.rest)};
  }
};

// x * Phi(x) (Hendrycks & Gimpel 2016, section 2), whose derivative is Phi(x) + x * phi(x).
struct Gelu {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return x * normal(x).cdf;
  }

  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts(Accumulate x) {
    const Normal<Accumulate> at = normal(x);
    return {x * at.cdf, at.cdf + x * at.density};
  }
};

// Its approximation x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 * x^3) (Hendrycks & Gimpel 2016,
// section 2). As (1 + tanh(u)) / 2 = sigmoid(2 u), nothing cancels below zero.
struct TanhGelu {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return x * sigmoids(doubled_argument(x)).value;
  }

  // The derivative is s + x * s * (1 - s) * d(2 u)/dx with s = sigmoid(2 u).
  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts(Accumulate x) {
    const Sigmoids<Accumulate> at = sigmoids(doubled_argument(x));
    const Accumulate slope = Accumulate(kTwoRoots) * (Accumulate(1) + Accumulate(3 * kCubic) * (x * x));
    return {x * at.value, at.value + x * (at.value * at.rest) * slope};
  }

 private:
  static constexpr double kTwoRoots = 1.5957691216057308;  // 2 * sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate doubled_argument(Accumulate x) {
    return Accumulate(kTwoRoots) * x * (Accumulate(1) + Accumulate(kCubic) * (x * x));
  }
};

}  // namespace burnlike
