// The arithmetic of one score of attention in the backward pass.
//
// With S = scale * Q K^T + mask, P = exp(S - L) for L the logarithm of the sum of each row of exp(S), and dP = dO V^T:
//   dS = P * (dP - D) with D = rowsum(dO * O)
// (Dao 2023, "FlashAttention-2", algorithm 2).
#pragma once

#include "functions.h"
#include "logarithm.h"

namespace burnlike {

// P, of a score S.
template <class Accumulate>
BURNLIKE_INLINE Accumulate attention_weight(Accumulate score, Accumulate logsumexp) {
  return exponential(score - logsumexp);
}

// The gradient of q k^T, before it was scaled.
template <class Accumulate>
BURNLIKE_INLINE Accumulate
attention_grad_product(Accumulate weight, Accumulate grad_weight, Accumulate delta, Accumulate scale) {
  return weight * (grad_weight - delta) * scale;
}

}  // namespace burnlike
