// exp, sigmoid, tanh and the normal distribution of one value, the same bits on every instruction set: no branch, so
// that loops over them are vectorized, and no table. On CUDA float64 has the same bits, too, and float32 is computed by
// quick_float.h.
//
// exp(x) = 2^n * exp(r) with n = round(x / ln 2) and r = x - n ln 2, |r| <= ln(2) / 2, subtracted in two parts (Cody &
// Waite 1980, ch. 6); exp(r) by its Taylor series, whose rest is below 2^-27 in float32 (degree 7) and 2^-57 in
// float64 (degree 13). Largest error: 1 unit in the last place.
#pragma once

#include "element.h"
#include "quick_float.h"

namespace burnlike {

namespace detail {

BURNLIKE_INLINE uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

BURNLIKE_INLINE double double_of(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace detail

namespace detail {

// exp(x) = 2^power * sum, with the power in the last bits of a number whose other bits shift out.
template <class Value, class Bits>
struct ExponentialParts {
  Value sum;
  Bits power;
};

BURNLIKE_INLINE ExponentialParts<float, uint32_t> exponential_parts(float x) {
  const float magic = 0x1.8p23f;  // added, it rounds to a whole number and shows it in the last bits
  const float shifted = x * 0x1.715476p0f + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float sum = 1.0f / 5040.0f;
  sum = sum * r + 1.0f / 720.0f;
  sum = sum * r + 1.0f / 120.0f;
  sum = sum * r + 1.0f / 24.0f;
  sum = sum * r + 1.0f / 6.0f;
  sum = sum * r + 0.5f;
  sum = sum * (r * r) + r + 1.0f;
  return {sum, bits_of(shifted) - bits_of(magic)};
}

BURNLIKE_INLINE ExponentialParts<double, uint64_t> exponential_parts(double x) {
  const double magic = 0x1.8p52;
  const double shifted = x * 0x1.71547652b82fep0 + magic;
  const double n = shifted - magic;
  const double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * (r * r) + r + 1.0;
  return {sum, bits_of(shifted) - bits_of(magic)};
}

}  // namespace detail

BURNLIKE_INLINE float exponential(float x) {
  // Beyond these the result is infinite or zero; NaN passes both.
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const auto [sum, power] = detail::exponential_parts(x);
  // 2^n as two factors, since n reaches from -150 to 128.
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(power) >> 1);
  return sum * detail::float_of((half + 127u) << 23) * detail::float_of((power - half + 127u) << 23);
}

BURNLIKE_INLINE double exponential(double x) {
  x = x > 710.0 ? 710.0 : x;
  x = x < -746.0 ? -746.0 : x;
  const auto [sum, power] = detail::exponential_parts(x);
  const uint64_t half = static_cast<uint64_t>(static_cast<int64_t>(power) >> 1);
  return sum * detail::double_of((half + 1023u) << 52) * detail::double_of((power - half + 1023u) << 52);
}

#if defined(BURNLIKE_QUICK_FLOAT)

namespace detail {

// exp(x) = 2^(x / ln 2): `lost` is what x lacks, and what the product's rounding took is a factor close to 1.
BURNLIKE_INLINE float quick_exponential(float x, float lost = 0.0f) {
  const float product = x * 0x1.715476p0f;
  float rest = quick::fused(x, 0x1.715476p0f, -product);
  rest = quick::fused(x, 0x1.4ae0c0p-26f, rest);
  rest = quick::fused(lost, 0x1.715476p0f, rest);
  const float power = quick::power_of_two(product);
  return quick::fused(power * rest, 0x1.62e430p-1f, power);
}

}  // namespace detail

#endif

// exp(x) for x <= 0 or little above, in a fifth less time: 0 where it would be below about the smallest normal number.
BURNLIKE_INLINE float decay(float x) {
#if defined(BURNLIKE_QUICK_FLOAT)
  const float value = detail::quick_exponential(x);
#else
  const auto [sum, power] = detail::exponential_parts(x);
  const float value = sum * detail::float_of((power + 127u) << 23);
#endif
  return x < -87.0f ? 0.0f : value;
}

BURNLIKE_INLINE double decay(double x) {
  const auto [sum, power] = detail::exponential_parts(x);
  const double value = sum * detail::double_of((power + 1023u) << 52);
  return x < -708.0 ? 0.0 : value;
}

// The same for sums of values that come from 16 bits. On CUDA its relative error is |x| 2^-24, that of x itself having
// been rounded to float32.
template <class Element>
BURNLIKE_INLINE accumulate_t<Element> decay_of_values(accumulate_t<Element> x) {
#if defined(BURNLIKE_QUICK_FLOAT)
  if constexpr (sizeof(Element) == 2) return quick::power_of_two(x * 0x1.715476p0f);
#endif
  return decay(x);
}

// 1 / (1 + exp(-x)).
template <class Value>
BURNLIKE_INLINE Value sigmoid(Value x) {
  return Value(1) / (Value(1) + exponential(-x));
}

// The magnitude: exp(-2|x|) never overflows, and small x, where 1 - exp(-2|x|) loses its digits, by the continued
// fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))) (Lambert 1761), cut where its rest is below the last place.
BURNLIKE_INLINE float hyperbolic_tangent(float x) {
  const float magnitude = detail::float_of(detail::bits_of(x) & 0x7FFFFFFFu);
#if defined(BURNLIKE_QUICK_FLOAT)
  const float decay = burnlike::decay(-2.0f * magnitude);
#else
  const float decay = exponential(-2.0f * magnitude);
#endif
  const float s = x * x;
  // The fraction up to 9: exact to 1e-9 of the value for |x| <= 0.6.
  const bool is_small = magnitude < 0.55f;
  const float top = is_small ? multiply_add(s + 105.0f, s, 945.0f) : 1.0f - decay;
  const float bottom = is_small ? multiply_add(multiply_add(15.0f, s, 420.0f), s, 945.0f) : 1.0f + decay;
  const float value = quotient(top, bottom) * (is_small ? magnitude : 1.0f);
  return detail::float_of(detail::bits_of(value) | (detail::bits_of(x) & 0x80000000u));
}

BURNLIKE_INLINE double hyperbolic_tangent(double x) {
  const double magnitude = detail::double_of(detail::bits_of(x) & 0x7FFFFFFFFFFFFFFFu);
  const double decay = exponential(-2.0 * magnitude);
  const double s = x * x;
  // The fraction up to 17.
  const bool is_small = magnitude < 0.55;
  const double top = (((s + 990.0) * s + 135135.0) * s + 4729725.0) * s + 34459425.0;
  const double bottom = (((45.0 * s + 13860.0) * s + 945945.0) * s + 16216200.0) * s + 34459425.0;
  const double quotient = (is_small ? top : 1.0 - decay) / (is_small ? bottom : 1.0 + decay);
  const double value = quotient * (is_small ? magnitude : 1.0);
  return detail::double_of(detail::bits_of(value) | (detail::bits_of(x) & 0x8000000000000000u));
}

// The distribution function and the density of the normal distribution at one place.
template <class Value>
struct Normal {
  Value cdf;
  Value density;
};

namespace detail {

// Phi(-x) * exp(x^2 / 2), which falls slowly: a quotient of polynomials whose coefficients are all positive, so that
// nothing cancels. Fitted on [0, 15] to 7e-9 of the value by least squares, weighted until the largest error was small
// (Lawson 1961).
BURNLIKE_INLINE float normal_tail_ratio(float x) {
  float top = 0.00415401161f;
  top = multiply_add(top, x, 0.0408867821f);
  top = multiply_add(top, x, 0.183986232f);
  top = multiply_add(top, x, 0.439306766f);
  top = multiply_add(top, x, 0.5f);
  float bottom = 0.0104124509f;
  bottom = multiply_add(bottom, x, 0.102494076f);
  bottom = multiply_add(bottom, x, 0.471453607f);
  bottom = multiply_add(bottom, x, 1.20561969f);
  bottom = multiply_add(bottom, x, 1.67649853f);
  bottom = multiply_add(bottom, x, 1.0f);
  return quotient(top, bottom);
}

// On [0, 40], to 2e-18.
BURNLIKE_INLINE double normal_tail_ratio(double x) {
  double top = 2.2628848827045822e-07;
  top = top * x + 7.0316863021431126e-06;
  top = top * x + 0.00010729745049931439;
  top = top * x + 0.0010456989917398559;
  top = top * x + 0.0071571408925424481;
  top = top * x + 0.035808398264406127;
  top = top * x + 0.13245947624087737;
  top = top * x + 0.35818750626309803;
  top = top * x + 0.68070060115658937;
  top = top * x + 0.8286239522352038;
  top = top * x + 0.5;
  double bottom = 5.6722112292212031e-07;
  bottom = bottom * x + 1.7625823703314695e-05;
  bottom = bottom * x + 0.00026952204433739651;
  bottom = bottom * x + 0.0026388044833425368;
  bottom = bottom * x + 0.018208112099208106;
  bottom = bottom * x + 0.09234427084925971;
  bottom = bottom * x + 0.3494347157435162;
  bottom = bottom * x + 0.98253531120515303;
  bottom = bottom * x + 2.0050548913145345;
  bottom = bottom * x + 2.8203134910805923;
  bottom = bottom * x + 2.4551324652732731;
  bottom = bottom * x + 1.0;
  return top / bottom;
}

// The upper half of a number's digits, whose square is exact.
BURNLIKE_INLINE float upper_digits(float x) { return float_of(bits_of(x) & 0xFFFFF000u); }
BURNLIKE_INLINE double upper_digits(double x) { return double_of(bits_of(x) & 0xFFFFFFFFF8000000u); }

// exp(-x^2 / 2). What the square lost when it was rounded (Dekker 1971) would be lost times x^2 in the result.
template <class Value>
BURNLIKE_INLINE Value bell(Value x) {
  const Value square = x * x;
#if defined(BURNLIKE_QUICK_FLOAT)
  if constexpr (sizeof(Value) == sizeof(float)) {
    return quick_exponential(-0.5f * square, -0.5f * quick::fused(x, x, -square));
  }
#endif
  const Value upper = upper_digits(x);
  const Value lower = x - upper;
  const Value lost = ((upper * upper - square) + Value(2) * upper * lower) + lower * lower;
  const Value value = exponential(Value(-0.5) * square);
  return value - value * (Value(0.5) * lost);
}

BURNLIKE_INLINE float magnitude_of(float x) { return float_of(bits_of(x) & 0x7FFFFFFFu); }
BURNLIKE_INLINE double magnitude_of(double x) { return double_of(bits_of(x) & 0x7FFFFFFFFFFFFFFFu); }

}  // namespace detail

// Phi and phi, both exact to the last places also where they are tiny. Phi(x) = (1 + erf(x / sqrt(2))) / 2.
template <class Value>
BURNLIKE_INLINE Normal<Value> normal(Value x) {
  constexpr Value limit = sizeof(Value) == 4 ? Value(15) : Value(40);  // beyond it both are 0; NaN passes
  Value magnitude = detail::magnitude_of(x);
  magnitude = magnitude > limit ? limit : magnitude;
  const Value bell = detail::bell(magnitude);
  const Value tail = bell * detail::normal_tail_ratio(magnitude);
  return {x < Value(0) ? tail : Value(1) - tail, bell * Value(0.3989422804014327)};
}

}  // namespace burnlike
