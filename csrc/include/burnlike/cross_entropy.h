// The arithmetic of cross-entropy over classes, for CPU and CUDA.
//
// With z the logits of a row, capped if asked (z = cap * tanh(x / cap), Gemma Team 2024, section 2), t its target,
// w the weights of the classes, W their sum, C their number and a the smoothing (Szegedy et al. 2016, section 7):
//   nll  = log(sum(exp(z))) - z_t
//   loss = (1 - a) * w_t * nll + a / C * sum(w * (log(sum(exp(z))) - z)) + z_loss * w_t * log(sum(exp(z)))^2
// The last term is that of Chowdhery et al. 2022, section 5. With p = exp(z) / sum(exp(z)) the gradient is
//   dz = p * ((1 - a) * w_t + a / C * W + 2 * z_loss * w_t * log(sum(exp(z)))) - a / C * w - (1 - a) * w_t * [t]
//   dx = dz * (1 - tanh(x / cap)^2)
// A row is kept as two numbers, which lose nothing where logits are large: the shift, its largest logit, and the sum of
// exp(z - shift).
#pragma once

#include <cstdint>

#include "functions.h"
#include "logarithm.h"

namespace burnlike {

template <class Accumulate>
struct CrossEntropyOptions {
  const Accumulate* weights;  // of the classes, or null
  double weight_sum;          // of all classes
  int64_t classes;
  int64_t ignore_index;
  double label_smoothing;
  double z_loss;
  Accumulate soft_cap;  // 0: none
};

// A number below all logits, which exp makes 0.
template <class Accumulate>
BURNLIKE_INLINE Accumulate lowest_logit() {
  return static_cast<Accumulate>(-__builtin_inff());
}

// What is computed of a logit once: itself, or tanh(x / cap).
template <bool kCapped, class Accumulate>
BURNLIKE_INLINE Accumulate squashed(Accumulate x, Accumulate soft_cap) {
  if constexpr (kCapped) return hyperbolic_tangent(x / soft_cap);
  return x;
}

template <bool kCapped, class Accumulate>
BURNLIKE_INLINE Accumulate capped(Accumulate squashed_x, Accumulate soft_cap) {
  if constexpr (kCapped) return soft_cap * squashed_x;
  return squashed_x;
}

// dz / dx.
template <bool kCapped, class Accumulate>
BURNLIKE_INLINE Accumulate cap_slope(Accumulate squashed_x) {
  if constexpr (kCapped) return Accumulate(1) - squashed_x * squashed_x;
  return Accumulate(1);
}

// Of a row whose logits are all -inf, the shift is 0: exp(-inf) is 0, and NaN remains NaN.
template <class Accumulate>
BURNLIKE_INLINE Accumulate shift_of(Accumulate largest) {
  return largest == lowest_logit<Accumulate>() ? Accumulate(0) : largest;
}

template <class Accumulate>
BURNLIKE_INLINE double weight_of(const CrossEntropyOptions<Accumulate>& options, int64_t target) {
  return options.weights == nullptr ? 1.0 : static_cast<double>(options.weights[target]);
}

// A row's loss. `rest` is the sum of w * (z - z_t) over the classes, which smoothing alone needs.
template <class Accumulate>
BURNLIKE_INLINE double cross_entropy_loss(
    const CrossEntropyOptions<Accumulate>& options, double target_weight, Accumulate shift, Accumulate sum,
    Accumulate target_logit, double rest) {
  const double log_sum = logarithm(static_cast<double>(sum));
  const double nll = (static_cast<double>(shift) - static_cast<double>(target_logit)) + log_sum;
  double loss = (1.0 - options.label_smoothing) * target_weight * nll;
  if (options.label_smoothing > 0.0) {
    loss += options.label_smoothing / static_cast<double>(options.classes) * (options.weight_sum * nll - rest);
  }
  if (options.z_loss != 0.0) {
    const double log_sum_exp = static_cast<double>(shift) + log_sum;
    loss += options.z_loss * target_weight * log_sum_exp * log_sum_exp;
  }
  return loss;
}

// The factors of a row's gradient dz = exps * exp(z - shift) - spread * w - target * [t].
template <class Accumulate>
struct CrossEntropySlopes {
  Accumulate exps, spread, target;
};

// `slope` is the gradient of the row's loss.
template <class Accumulate>
BURNLIKE_INLINE CrossEntropySlopes<Accumulate> cross_entropy_slopes(
    const CrossEntropyOptions<Accumulate>& options, double target_weight, Accumulate shift, Accumulate sum,
    double slope) {
  const double target = (1.0 - options.label_smoothing) * target_weight;
  const double spread = options.label_smoothing / static_cast<double>(options.classes);
  double exps = target + spread * options.weight_sum;
  if (options.z_loss != 0.0) {
    exps += 2.0 * options.z_loss * target_weight * (static_cast<double>(shift) + logarithm(static_cast<double>(sum)));
  }
  return {
      static_cast<Accumulate>(slope * exps / static_cast<double>(sum)), static_cast<Accumulate>(slope * spread),
      static_cast<Accumulate>(slope * target)};
}

}  // namespace burnlike
