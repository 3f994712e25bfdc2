// The arithmetic of one score of attention in the backward pass.
//
// With S = scale * Q K^T + mask, P = exp((S - M) - L) for M the largest of each row of S and L the logarithm of the sum
// of exp(S - M), and dP = dO V^T:
//   dS = P * (dP - D) with D = rowsum(dO * O)
// (Dao 2023, "FlashAttention-2", algorithm 2, where M + L are one number: beside a mask of -1e9 float32 holds none of
// L).
#pragma once

#include "functions.h"
#include "logarithm.h"

namespace burnlike {

// P, of a score S.
template <class Accumulate>
BURNLIKE_INLINE Accumulate attention_weight(Accumulate score, Accumulate largest, Accumulate logarithm) {
  return exponential((score - largest) - logarithm);
}

// The gradient of q k^T, before it was scaled.
template <class Accumulate>
BURNLIKE_INLINE Accumulate
attention_grad_product(Accumulate weight, Accumulate grad_weight, Accumulate delta, Accumulate scale) {
  return weight * (grad_weight - delta) * scale;
}

}  // namespace burnlike
