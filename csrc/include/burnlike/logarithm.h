// log of one value, the same bits on every instruction set and on CUDA, for sums of which there are few.
//
// log(x) = e log(2) + log(m) with x = 2^e m, m from sqrt(1/2) to sqrt(2), and log(m) = 2 artanh(s) with
// s = (m - 1) / (m + 1), |s| <= 0.172, by its series, whose rest is below 2^-57. Largest error: 2 units in the last
// place.
#pragma once

#include "functions.h"

namespace burnlike {

BURNLIKE_INLINE double logarithm(double x) {
  const bool is_subnormal = x < 0x1p-1022;
  const uint64_t bits = detail::bits_of(is_subnormal ? x * 0x1p54 : x);
  const uint64_t root_bits = 0x3FE6A09E667F3BCDu;  // of sqrt(1/2)
  const int64_t exponent = static_cast<int64_t>(bits - root_bits) >> 52;
  const double m = detail::double_of(bits - (static_cast<uint64_t>(exponent) << 52));
  const double e = static_cast<double>(exponent - (is_subnormal ? 54 : 0));
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double sum = 1.0 / 21.0;
  sum = sum * s2 + 1.0 / 19.0;
  sum = sum * s2 + 1.0 / 17.0;
  sum = sum * s2 + 1.0 / 15.0;
  sum = sum * s2 + 1.0 / 13.0;
  sum = sum * s2 + 1.0 / 11.0;
  sum = sum * s2 + 1.0 / 9.0;
  sum = sum * s2 + 1.0 / 7.0;
  sum = sum * s2 + 1.0 / 5.0;
  sum = sum * s2 + 1.0 / 3.0;
  const double value = e * 0x1.62e42fee00000p-1 + (2.0 * s + (2.0 * s * (s2 * sum) + e * 0x1.a39ef35793c76p-33));
  if (x > 0.0 && x < __builtin_inf()) return value;
  if (x == 0.0) return -__builtin_inf();
  return x > 0.0 ? x : __builtin_nan("");
}

}  // namespace burnlike
