// The kernels for AVX-512 (F, BW, DQ, VL). Only this region is compiled for it, so the rest runs on any x86-64.
#include "headers.h"

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(                                                                             \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,pclmul"), min_vector_width(512))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,pclmul,prefer-vector-width=512")
#endif

#define BURNLIKE_CARRYLESS
// Not all processors with AVX-512 have it: asked for in each call.
#define BURNLIKE_CARRYLESS_512 __attribute__((target("avx512f,vpclmulqdq")))
#define BURNLIKE_BFLOAT16_512 __attribute__((target("avx512f,avx512bf16")))
#define BURNLIKE_VNNI_512 __attribute__((target("avx512f,avx512vnni")))
#define BURNLIKE_FMA_512
#define BURNLIKE_ISA isa_avx512
#include "table.inl"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
