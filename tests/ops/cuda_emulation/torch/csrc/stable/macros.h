// Torch's header without its check of CUDA calls, which asks torch's CUDA library for texts. Torch 2.11 defines it anew
// at each inclusion, and so this file has no guard either.
#include_next <torch/csrc/stable/macros.h>

#undef STD_CUDA_CHECK
#define STD_CUDA_CHECK(EXPR) static_cast<void>(EXPR)
