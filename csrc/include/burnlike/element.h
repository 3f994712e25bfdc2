// Element types of tensors, and the type in which arithmetic on them is done.
//
// float16 and bfloat16 are bits with conversions; nothing is computed in them. The conversions have no branch, so that
// loops over them are vectorized.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "macros.h"

namespace burnlike {

struct BFloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

// Sums and products are formed in float32, or in float64 for float64.
template <class Element>
struct AccumulateType {
  using type = float;
};
template <>
struct AccumulateType<double> {
  using type = double;
};
template <class Element>
using accumulate_t = typename AccumulateType<Element>::type;

namespace detail {

BURNLIKE_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

BURNLIKE_INLINE float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// A float32 that is rounded to 16 bits as the float64 itself: towards zero, with its last bit set if anything is lost
// (Boldo & Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd"). By
// way of the nearest float32, as torch converts, values beside the middle of two are rounded twice.
BURNLIKE_INLINE float rounded_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t is_above = (value < 0.0 ? back < value : back > value) ? 1u : 0u;
  const uint32_t is_inexact = back != value ? 1u : 0u;
  return float_of((bits_of(nearest) - is_above) | is_inexact);
}

}  // namespace detail

BURNLIKE_INLINE float load(float value) { return value; }
BURNLIKE_INLINE double load(double value) { return value; }

BURNLIKE_INLINE float load(BFloat16 value) { return detail::float_of(static_cast<uint32_t>(value.bits) << 16); }

// After M. Dukhan's FP16 library: normal numbers by a change of exponent, subnormal ones by a subtraction that the
// hardware normalizes.
BURNLIKE_INLINE float load(Float16 value) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(value.bits));
#else
  const uint32_t word = static_cast<uint32_t>(value.bits) << 16;
  const uint32_t sign = word & 0x80000000u;
  const uint32_t twice = word + word;
  const uint32_t normal = detail::bits_of(detail::float_of((twice >> 4) + (0xE0u << 23)) * 0x1.0p-112f);
  const uint32_t subnormal = detail::bits_of(detail::float_of((twice >> 17) | (126u << 23)) - 0.5f);
  return detail::float_of(sign | (twice < (1u << 27) ? subnormal : normal));
#endif
}

// `store<Element>(value)`: round to nearest, ties to even.
template <class Element>
struct Store {
  BURNLIKE_INLINE static Element from(accumulate_t<Element> value) { return value; }
};

template <>
struct Store<BFloat16> {
  BURNLIKE_INLINE static BFloat16 from(float value) {
#if defined(__CUDA_ARCH__)
    return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
    const uint32_t bits = detail::bits_of(value);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    return {static_cast<uint16_t>(is_nan ? 0x7FC0u : rounded)};
#endif
  }
};

template <>
struct Store<Float16> {
  BURNLIKE_INLINE static Float16 from(float value) {
#if defined(__CUDA_ARCH__)
    return {__half_as_ushort(__float2half_rn(value))};
#else
    const uint32_t word = detail::bits_of(value);
    const uint32_t magnitude = word & 0x7FFFFFFFu;
    const uint32_t twice = word + word;
    const uint32_t exponent = twice & 0xFF000000u;
    const uint32_t bias = exponent < 0x71000000u ? 0x71000000u : exponent;
    // Too large becomes infinite, then the sum rounds at float16's last place.
    float base = (detail::float_of(magnitude) * 0x1.0p+112f) * 0x1.0p-110f;
    base = detail::float_of((bias >> 1) + 0x07800000u) + base;
    const uint32_t sum = detail::bits_of(base);
    const uint32_t nonsign = ((sum >> 13) & 0x7C00u) + (sum & 0x0FFFu);
    return {static_cast<uint16_t>(((word & 0x80000000u) >> 16) | (twice > 0xFF000000u ? 0x7E00u : nonsign))};
#endif
  }
};

template <class Element>
BURNLIKE_INLINE Element store(accumulate_t<Element> value) {
  return Store<Element>::from(value);
}

// A value in another type, rounded once.
template <class Target, class Source>
BURNLIKE_INLINE Target converted(Source value) {
  if constexpr (sizeof(Source) == 8 && sizeof(Target) == 2) {
    return store<Target>(detail::rounded_to_odd(value));
  } else {
    return store<Target>(static_cast<accumulate_t<Target>>(load(value)));
  }
}

}  // namespace burnlike
