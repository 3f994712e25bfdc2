// Division by a number that is known before a kernel is started.
#pragma once

#include <cstdint>

namespace burnlike::cuda {

// Division of numbers below 2^31 by one that is known before, as a product and a shift (Granlund & Montgomery 1994,
// section 4): a division of 64 bits takes as many instructions as two values of gelu.
struct Divider {
  explicit Divider(int64_t divisor_ = 1) : divisor(divisor_) {
    while ((int64_t{1} << shift) < divisor) ++shift;
    if (divisor <= INT32_MAX) {
      factor = static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
    }
  }

  __device__ __forceinline__ int64_t quotient(int64_t number) const {
    if (number > INT32_MAX || divisor > INT32_MAX) return number / divisor;
    const auto small = static_cast<uint32_t>(number);
    const auto upper = static_cast<uint32_t>(static_cast<uint64_t>(small) * factor >> 32);
    return (upper + small) >> shift;
  }

  int64_t divisor;
  uint32_t factor = 0;
  int32_t shift = 0;
};

}  // namespace burnlike::cuda
