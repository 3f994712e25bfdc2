// Correctly rounded functions of one value, the same on CPU and CUDA.
#pragma once

#include "macros.h"

namespace burnlike {

BURNLIKE_INLINE float square_root(float value) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

BURNLIKE_INLINE double square_root(double value) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(value);
#else
  return __builtin_sqrt(value);
#endif
}

}  // namespace burnlike
