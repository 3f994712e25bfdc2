// The kernels for whatever the compiler takes as its baseline: SSE2 on x86-64, NEON on aarch64.
#include "headers.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define BURNLIKE_ISA isa_default
#include "table.inl"
