// Whether a value was too large for the type that it was converted to. For CPU and CUDA.
#pragma once

#include <cstdint>

#include "element.h"

namespace burnlike {

// The difference is 0, or NaN. Bits would have to be copied, and a loop with such copies is not vectorized.
BURNLIKE_INLINE bool is_finite(float value) { return value - value == 0.0f; }
BURNLIKE_INLINE bool is_finite(double value) { return value - value == 0.0; }
BURNLIKE_INLINE bool is_finite(BFloat16 value) { return (value.bits & 0x7F80u) != 0x7F80u; }
BURNLIKE_INLINE bool is_finite(Float16 value) { return (value.bits & 0x7C00u) != 0x7C00u; }

// 1 where a finite value became infinite.
template <class Target, class Source>
BURNLIKE_INLINE uint32_t is_lost(Source before, Target after) {
  return static_cast<uint32_t>(is_finite(before)) & static_cast<uint32_t>(!is_finite(after));
}

}  // namespace burnlike
