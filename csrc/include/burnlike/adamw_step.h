// The arithmetic of one value of an AdamW or Adam step, for CPU and CUDA.
//
// Loshchilov & Hutter 2019, algorithm 2, in the order of Burn:
//   m = beta_1 * m + (1 - beta_1) * g          v = beta_2 * v + (1 - beta_2) * g^2
//   delta = (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon)
//   p = p * (1 - lr * weight_decay) - lr * delta
// amsgrad (Reddi et al. 2018) puts the largest v so far into delta; the cautious form (Chen et al. 2025) decays only
// where p and m have the same sign; Adam (Kingma & Ba 2015) adds weight_decay * p to g instead.
#pragma once

#include <cmath>
#include <cstdint>

#include "scalar_math.h"
#include "step_options.h"

namespace burnlike {

enum class Decay : uint8_t { kDecoupled, kCautious, kCoupled };

// The decoupled form multiplies by exactly 1 if there is no decay; the others would make NaN of an infinite parameter.
inline Decay decay_form(double weight_decay, bool coupled, bool cautious) {
  if (weight_decay == 0.0) return Decay::kDecoupled;
  return coupled ? Decay::kCoupled : cautious ? Decay::kCautious : Decay::kDecoupled;
}

// The arguments of a step.
struct AdamwArguments {
  double lr;
  double beta_1;
  double beta_2;
  double epsilon;
  double weight_decay;
  Decay decay;
  bool amsgrad;
};

// What is the same for every value of a tensor, computed in float64 and rounded once.
template <class Accumulate>
struct AdamwScalars {
  GradientScalars<Accumulate> gradient;
  Accumulate lr;
  Accumulate beta_1;
  Accumulate one_minus_beta_1;
  Accumulate beta_2;
  Accumulate one_minus_beta_2;
  Accumulate correction_1;
  Accumulate correction_2;
  Accumulate epsilon;
  Accumulate decay;
  Accumulate keep;
  Accumulate coupled_decay;
};

// 1 - beta^t of both moments; the time t belongs to one parameter and counts from 1.
struct AdamwCorrections {
  double moment_1;
  double moment_2;
};

BURNLIKE_INLINE AdamwCorrections adamw_corrections(const AdamwArguments& arguments, double time) {
  return {1.0 - std::pow(arguments.beta_1, time), 1.0 - std::pow(arguments.beta_2, time)};
}

template <class Accumulate>
BURNLIKE_INLINE AdamwScalars<Accumulate> adamw_scalars(
    const AdamwArguments& arguments, const AdamwCorrections& corrections, const GradientScalars<Accumulate>& gradient) {
  const double decay = arguments.lr * arguments.weight_decay;
  AdamwScalars<Accumulate> scalars;
  scalars.gradient = gradient;
  scalars.lr = static_cast<Accumulate>(arguments.lr);
  scalars.beta_1 = static_cast<Accumulate>(arguments.beta_1);
  scalars.one_minus_beta_1 = static_cast<Accumulate>(1.0 - arguments.beta_1);
  scalars.beta_2 = static_cast<Accumulate>(arguments.beta_2);
  scalars.one_minus_beta_2 = static_cast<Accumulate>(1.0 - arguments.beta_2);
  scalars.correction_1 = static_cast<Accumulate>(corrections.moment_1);
  scalars.correction_2 = static_cast<Accumulate>(corrections.moment_2);
  scalars.epsilon = static_cast<Accumulate>(arguments.epsilon);
  scalars.decay = static_cast<Accumulate>(decay);
  scalars.keep = static_cast<Accumulate>(1.0 - decay);
  scalars.coupled_decay = static_cast<Accumulate>(arguments.weight_decay);
  return scalars;
}

// Changes p, m, v and, with amsgrad, v_max.
template <Decay kDecay, bool kAmsgrad, class Accumulate>
BURNLIKE_INLINE void adamw_value(
    Accumulate& p, Accumulate g, Accumulate& m, Accumulate& v, Accumulate& v_max, const AdamwScalars<Accumulate>& s) {
  g = prepared(g, s.gradient);
  if constexpr (kDecay == Decay::kCoupled) g = g + p * s.coupled_decay;
  m = s.beta_1 * m + s.one_minus_beta_1 * g;
  v = s.beta_2 * v + s.one_minus_beta_2 * (g * g);
  Accumulate second = v;
  if constexpr (kAmsgrad) {
    v_max = v > v_max || v != v ? v : v_max;  // NaN if one of them is
    second = v_max;
  }
  const Accumulate delta = (m / s.correction_1) / (square_root(second / s.correction_2) + s.epsilon);
  Accumulate kept = p;
  if constexpr (kDecay == Decay::kDecoupled) kept = p * s.keep;
  if constexpr (kDecay == Decay::kCautious) {
    kept = (p >= Accumulate(0)) == (m >= Accumulate(0)) ? p - p * s.decay : p;
  }
  p = kept - s.lr * delta;
}

}  // namespace burnlike
