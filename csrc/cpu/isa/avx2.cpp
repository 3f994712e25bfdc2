// The kernels for AVX2 with F16C and PCLMULQDQ. Only this region is compiled for it, so the rest runs on any x86-64.
#include "headers.h"

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,pclmul"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,pclmul")
#endif

#define BURNLIKE_CARRYLESS
// Not all processors with AVX2 have it: asked for in each call.
#define BURNLIKE_VNNI_256 __attribute__((target("avx2,avxvnni")))
#define BURNLIKE_FMA_256
#define BURNLIKE_ISA isa_avx2
#include "table.inl"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
