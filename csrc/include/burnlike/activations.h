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

// exp(-|x|), which needs no bounds.
template <class Accumulate>
BURNLIKE_INLINE Accumulate decay_of(Accumulate x) {
  return decay(-detail::magnitude_of(x));
}

// sigmoid(x), and 1 - sigmoid(x) with all its digits where that is small.
template <class Accumulate>
struct Sigmoids {
  Accumulate value;
  Accumulate rest;
};

// `small` is decay_of(x). The quotient is rounded with a relative error, the difference with one of a last place of 1.
template <class Accumulate>
BURNLIKE_INLINE Sigmoids<Accumulate> sigmoids(Accumulate x, Accumulate small) {
  const Accumulate smaller = quotient(small, Accumulate(1) + small);
  const Accumulate larger = Accumulate(1) - smaller;
  return x < Accumulate(0) ? Sigmoids<Accumulate>{smaller, larger} : Sigmoids<Accumulate>{larger, smaller};
}

// An activation made of a sigmoid: of `decayed(x)`, which a loop may compute ahead of the rest.
template <class Activation>
struct ByDecay {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return Activation::value_by(x, Activation::decayed(x));
  }

  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts(Accumulate x) {
    return Activation::parts_by(x, Activation::decayed(x));
  }
};

// x * sigmoid(x) (Elfwing et al. 2018, eq. 1), whose derivative is s + x * s * (1 - s) with s = sigmoid(x) (eq. 4).
struct Silu : ByDecay<Silu> {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate decayed(Accumulate x) {
    return decay_of(x);
  }

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value_by(Accumulate x, Accumulate small) {
    return quotient(x < Accumulate(0) ? x * small : x, Accumulate(1) + small);
  }

  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts_by(Accumulate x, Accumulate small) {
    const Sigmoids<Accumulate> at = sigmoids(x, small);
    const Accumulate value = value_by(x, small);
    return {value, multiply_add(value, at.rest, at.value)};
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
    return {x * at.cdf, multiply_add(x, at.density, at.cdf)};
  }
};

// Its approximation x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 * x^3) (Hendrycks & Gimpel 2016,
// section 2).
struct TanhGelu : ByDecay<TanhGelu> {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate decayed(Accumulate x) {
    return decay_of(doubled_argument(x));
  }

  // Nothing cancels below zero, as (1 + tanh(u)) / 2 = sigmoid(2 u).
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value_by(Accumulate x, Accumulate small) {
    return x * sigmoids(doubled_argument(x), small).value;
  }

  // The derivative is s + x * s * (1 - s) * d(2 u)/dx with s = sigmoid(2 u).
  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts_by(Accumulate x, Accumulate small) {
    const Sigmoids<Accumulate> at = sigmoids(doubled_argument(x), small);
    const Accumulate slope = Accumulate(kTwoRoots) * multiply_add(Accumulate(3 * kCubic), x * x, Accumulate(1));
    return {x * at.value, multiply_add(x * (at.value * at.rest), slope, at.value)};
  }

 private:
  static constexpr double kTwoRoots = 1.5957691216057308;  // 2 * sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate doubled_argument(Accumulate x) {
    return Accumulate(kTwoRoots) * x * multiply_add(Accumulate(kCubic), x * x, Accumulate(1));
  }
};

// Its approximation x * sigmoid(k x) with k = 1.702 (Hendrycks & Gimpel 2016, section 2), whose derivative is
// s + k * x * s * (1 - s) with s = sigmoid(k x).
struct SigmoidGelu : ByDecay<SigmoidGelu> {
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate decayed(Accumulate x) {
    return decay_of(Accumulate(kScale) * x);
  }

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value_by(Accumulate x, Accumulate small) {
    return quotient(x < Accumulate(0) ? x * small : x, Accumulate(1) + small);
  }

  template <class Accumulate>
  BURNLIKE_INLINE static ActivationParts<Accumulate> parts_by(Accumulate x, Accumulate small) {
    // By the sigmoid of |k x|: s of the one sign is 1 - s of the other.
    const Accumulate larger = quotient(Accumulate(1), Accumulate(1) + small);
    const Accumulate share = x < Accumulate(0) ? small : Accumulate(1);
    return {x * (larger * share), larger * multiply_add(x * small, Accumulate(kScale) * larger, share)};
  }

 private:
  static constexpr double kScale = 1.702;
};

}  // namespace burnlike
