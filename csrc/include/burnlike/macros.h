// How a function is declared that both the CPU and the CUDA sources compile.
#pragma once

#if defined(__CUDACC__)
#define BURNLIKE_INLINE __host__ __device__ __forceinline__
#else
// Always inlined: a function of a shared header takes on the instruction set of the kernel that calls it.
#define BURNLIKE_INLINE inline __attribute__((always_inline))
#endif
