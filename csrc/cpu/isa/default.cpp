// The kernels for whatever the compiler takes as its baseline: SSE2 on x86-64, NEON on aarch64.
#include "headers.h"

#define BURNLIKE_ISA isa_default
#include "table.inl"
