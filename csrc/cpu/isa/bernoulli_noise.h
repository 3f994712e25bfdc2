// The kernels of random noise from a Mersenne Twister: their bodies are in bernoulli_noise.inl.
#pragma once

#include <cstdint>

#include "kernel_table.h"

namespace burnlike::cpu {

// A Mersenne Twister (Matsumoto & Nishimura 1998, MT19937) as torch's generator keeps it: the place of the next number
// in `values`, and how many are left there, the one that is being taken included.
struct Twister {
  static constexpr int64_t kSize = 624;

  uint32_t values[kSize + 1];  // the last one is the first again while new ones are made
  int64_t next;
  int64_t left;
};

template <class Element>
struct BernoulliNoiseKernels {
  // Each value is `scale` with the probability threshold / 2^53, else 0.
  void (*fill)(Twister& twister, Element* noise, int64_t count, uint64_t threshold, Element scale);
};

BURNLIKE_KERNELS(PerElement<BernoulliNoiseKernels>, bernoulli_noise_kernels)

}  // namespace burnlike::cpu
