// Random bits that need no generator: a hash of a seed and of the place that is written, for CPU and CUDA.
//
// The bits are the same whatever the number of threads and the device. burnlike/ops/_random.py does the same in torch.
#pragma once

#include <cstdint>

#include "blockwise.h"
#include "element.h"

namespace burnlike {

// C. Wellons' lowbias32: each bit of the result depends on each bit of x. Operations of 32 bits only, so that loops
// over it are vectorized.
BURNLIKE_INLINE uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

// For one tensor that is written: `tensor` is the place of the parameter in the list, `stream` 0 for the weight, then
// one for each of its moments.
BURNLIKE_INLINE uint32_t random_key(uint64_t seed, int64_t tensor, uint32_t stream) {
  const uint32_t key = mixed(mixed(static_cast<uint32_t>(seed)) ^ static_cast<uint32_t>(seed >> 32));
  return mixed(mixed(key ^ static_cast<uint32_t>(tensor)) ^ stream);
}

// For the values [kBlock * block, kBlock * (block + 1)) of the tensor.
BURNLIKE_INLINE uint32_t random_block_key(uint32_t key, int64_t block) {
  return mixed(static_cast<uint32_t>(block) ^ key);
}

// For the value at place `lane` of the block.
BURNLIKE_INLINE uint32_t random_bits(uint32_t block_key, uint32_t lane) {
  return mixed(block_key + lane * 0x9E3779B9u);
}

// A number in [0, 1) of 24 bits.
BURNLIKE_INLINE float uniform(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1.0p-24f;
}

namespace detail {

// The magnitude rounded to `kDropped` bits less, up or down by chance. `kLimit` and more becomes infinite when rounded
// to nearest; below that, the result is at most `kLargest`.
template <int kDropped, int32_t kOverflow, int32_t kLimit, int32_t kLargest>
BURNLIKE_INLINE int32_t rounded_magnitude(int32_t magnitude, uint32_t bits) {
  const uint32_t sum = static_cast<uint32_t>(magnitude) + (bits >> (32 - kDropped));
  const int32_t rounded = static_cast<int32_t>(sum & (0xFFFFFFFFu << kDropped));
  return rounded >= kOverflow && magnitude < kLimit ? kLargest : rounded;
}

}  // namespace detail

// Rounds up or down so that the mean over `bits` is the value. What is not finite stays so.
template <class Element>
struct StochasticStore;

template <>
struct StochasticStore<BFloat16> {
  BURNLIKE_INLINE static BFloat16 from(float value, uint32_t bits) {
    const uint32_t pattern = detail::bits_of(value);
    const int32_t magnitude = static_cast<int32_t>(pattern & 0x7FFFFFFFu);
    const int32_t rounded = detail::rounded_magnitude<16, 0x7F800000, 0x7F7F8000, 0x7F7F0000>(magnitude, bits);
    const uint32_t finite = (pattern & 0x80000000u) | static_cast<uint32_t>(rounded);
    const uint32_t result = magnitude < 0x7F800000 ? finite : pattern;
    return {static_cast<uint16_t>(magnitude > 0x7F800000 ? 0x7FC0u : result >> 16)};
  }
};

template <>
struct StochasticStore<Float16> {
  BURNLIKE_INLINE static Float16 from(float value, uint32_t bits) {
    const uint32_t pattern = detail::bits_of(value);
    const int32_t magnitude = static_cast<int32_t>(pattern & 0x7FFFFFFFu);
    const int32_t rounded = detail::rounded_magnitude<13, 0x47800000, 0x477FF000, 0x477FE000>(magnitude, bits);
    // Below 2^-14 numbers are 2^-24 apart; the minimum keeps larger ones from overflowing an integer.
    const float absolute = detail::float_of(static_cast<uint32_t>(magnitude));
    const float steps = (absolute < 0x1.0p-14f ? absolute : 0x1.0p-14f) * 0x1.0p+24f;
    const float below = static_cast<float>(static_cast<int32_t>(steps));
    const float subnormal = (below + (steps - below > uniform(bits) ? 1.0f : 0.0f)) * 0x1.0p-24f;
    const uint32_t small = detail::bits_of(subnormal);
    const uint32_t finite = magnitude < 0x38800000 ? small : static_cast<uint32_t>(rounded);
    const uint32_t result = magnitude < 0x7F800000 ? (pattern & 0x80000000u) | finite : pattern;
    // Exact, as the bits below float16's last place are zero.
    return store<Float16>(detail::float_of(result));
  }
};

}  // namespace burnlike
