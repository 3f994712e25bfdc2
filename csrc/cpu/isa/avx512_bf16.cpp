// The kernels for AVX-512 with BF16 that differ from those for AVX-512. Only this region is compiled for it.
#include "headers.h"

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of what the intrinsics of GCC 12 leave undefined on purpose
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "attention_bf16.h"

#if defined(__clang__)
#pragma clang attribute push(                                                                            \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma"), min_vector_width(512))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")
#endif

namespace burnlike::cpu::isa_avx512_bf16 {

#include "products_bf16.inl"
// After what it calls.
#include "attention_bf16.inl"

}  // namespace burnlike::cpu::isa_avx512_bf16

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
