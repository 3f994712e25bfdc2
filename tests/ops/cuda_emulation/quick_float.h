// The instructions of csrc/include/burnlike/quick_float.h on a CPU, with the largest errors that NVIDIA's manual of PTX
// allows: 1 unit in the last place for a reciprocal, 2 for a power of two.
#pragma once

#include <cmath>

#define BURNLIKE_QUICK_FLOAT 1

namespace burnlike::quick {

inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline float reciprocal(float x) { return (1.0f / x) * (1.0f + 0x1p-23f); }
inline float power_of_two(float x) { return x < -126.0f ? 0.0f : std::exp2(x) * (1.0f - 0x1p-22f); }

}  // namespace burnlike::quick
