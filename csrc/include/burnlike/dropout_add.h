// The arithmetic of one value of residual + dropout(x), for CPU and CUDA.
//
// Whether a value is dropped is a hash of the seed and of the value's index (random.h): the backward pass finds it
// again without a mask, and so does any number of threads on any device.
#pragma once

#include "random.h"

namespace burnlike {

// What is the same for all values.
template <class Accumulate>
struct Dropping {
  uint32_t key;
  float probability;
  Accumulate scale;  // of what is kept
};

template <class Accumulate>
BURNLIKE_INLINE Dropping<Accumulate> dropping(uint64_t seed, double probability) {
  const double scale = probability < 1.0 ? 1.0 / (1.0 - probability) : 0.0;
  return {random_key(seed, 0, 0), static_cast<float>(probability), static_cast<Accumulate>(scale)};
}

// By which the value at place `lane` of a block is multiplied. Products with zero leave NaN, as torch does.
template <class Accumulate>
BURNLIKE_INLINE Accumulate dropout_factor(uint32_t block_key, uint32_t lane, const Dropping<Accumulate>& drop) {
  return uniform(random_bits(block_key, lane)) >= drop.probability ? drop.scale : Accumulate(0);
}

}  // namespace burnlike
