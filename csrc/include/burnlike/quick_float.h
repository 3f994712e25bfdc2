// Operations of float32 for which a GPU has quicker instructions: for exp and what is made of it, in kernels that would
// be bound by instructions otherwise. There their results are other bits than on a CPU, by some units in the last
// place.
//
// Elsewhere, and in float64, each operation is rounded by itself: the same bits on every instruction set.
#pragma once

#include "macros.h"

#if defined(__CUDA_ARCH__)
#define BURNLIKE_QUICK_FLOAT 1  // tests/ops/cuda_emulation defines it too, and the three functions
#endif

namespace burnlike {

#if defined(__CUDA_ARCH__)

namespace quick {

__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// Of a normal number whose reciprocal is one.
__device__ __forceinline__ float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// 2^x, and 0 below the normal numbers.
__device__ __forceinline__ float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace quick

#endif

// a * b + c.
BURNLIKE_INLINE float multiply_add(float a, float b, float c) {
#if defined(BURNLIKE_QUICK_FLOAT)
  return quick::fused(a, b, c);
#else
  return a * b + c;
#endif
}

BURNLIKE_INLINE double multiply_add(double a, double b, double c) { return a * b + c; }

// a / b, of which b is from 2^-126 to 2^126.
BURNLIKE_INLINE float quotient(float a, float b) {
#if defined(BURNLIKE_QUICK_FLOAT)
  return a * quick::reciprocal(b);
#else
  return a / b;
#endif
}

BURNLIKE_INLINE double quotient(double a, double b) { return a / b; }

}  // namespace burnlike
