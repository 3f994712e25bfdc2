// Tables of CPU kernels: one function per op and element type, compiled once for each instruction set.
#pragma once

#include <cstdint>

#include "burnlike/element.h"

namespace burnlike::cpu {

// The kernels of an op for each element type: `table(element)` finds them by a value of the type.
template <template <class> class OpKernels>
struct PerElement {
  OpKernels<float> float32;
  OpKernels<double> float64;
  OpKernels<BFloat16> bfloat16;
  OpKernels<Float16> float16;

  const OpKernels<float>& operator()(float) const { return float32; }
  const OpKernels<double>& operator()(double) const { return float64; }
  const OpKernels<BFloat16>& operator()(BFloat16) const { return bfloat16; }
  const OpKernels<Float16>& operator()(Float16) const { return float16; }
};

// Those of an op that computes in float32 or float64.
template <template <class> class OpKernels>
struct PerAccumulate {
  OpKernels<float> float32;
  OpKernels<double> float64;

  const OpKernels<float>& operator()(float) const { return float32; }
  const OpKernels<double>& operator()(double) const { return float64; }
};

// Those of an op that takes float32 and bfloat16 alone.
template <template <class> class OpKernels>
struct PerFloatOrBFloat16 {
  OpKernels<float> float32;
  OpKernels<BFloat16> bfloat16;

  const OpKernels<float>& operator()(float) const { return float32; }
  const OpKernels<BFloat16>& operator()(BFloat16) const { return bfloat16; }
};

#define BURNLIKE_PER_ELEMENT(kernels) {kernels<float>, kernels<double>, kernels<BFloat16>, kernels<Float16>}
#define BURNLIKE_PER_ACCUMULATE(kernels) {kernels<float>, kernels<double>}

enum class Isa : uint8_t { kDefault, kAvx2, kAvx512, kAvx512Bf16 };

// The instruction set in use: the best one that this machine has, unless one was chosen.
Isa isa();

// Declares a table of an op, which `<op>.inl` defines for each instruction set, and a function of the same name that
// returns the table in use.
#if defined(__x86_64__)
#define BURNLIKE_KERNELS(Table, name)                   \
  namespace isa_default {                               \
  extern const Table name;                              \
  }                                                     \
  namespace isa_avx2 {                                  \
  extern const Table name;                              \
  }                                                     \
  namespace isa_avx512 {                                \
  extern const Table name;                              \
  }                                                     \
  inline const Table& name() {                          \
    if (isa() >= Isa::kAvx512) return isa_avx512::name; \
    if (isa() == Isa::kAvx2) return isa_avx2::name;     \
    return isa_default::name;                           \
  }
#else
#define BURNLIKE_KERNELS(Table, name) \
  namespace isa_default {             \
  extern const Table name;            \
  }                                   \
  inline const Table& name() { return isa_default::name; }
#endif

}  // namespace burnlike::cpu
