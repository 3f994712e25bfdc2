// Groups of values from memory to the type that is computed in, and back with rounding.
#pragma once

#include <cstdint>
#include <cstring>

#include "burnlike/blockwise.h"
#include "burnlike/random.h"
#include "group_memory.h"

namespace burnlike::cuda {

// How values are rounded: to nearest, or by chance with the key of their block.
struct GroupRounding {
  bool stochastic;
  uint32_t block_key;
  uint32_t lane;  // place of the thread's first value in its block

  // `offset` is that of a value to the thread's first.
  __device__ __forceinline__ uint32_t bits(int offset) const {
    return random_bits(block_key, lane + static_cast<uint32_t>(offset));
  }
};

namespace detail {

template <class Element, class Accumulate>
__device__ __forceinline__ Element element_of(const GroupBits<Accumulate>& bits, int value) {
  Element element;
  if constexpr (sizeof(Element) == 8) {
    const uint64_t pattern = bits.words[2 * value] | static_cast<uint64_t>(bits.words[2 * value + 1]) << 32;
    memcpy(&element, &pattern, sizeof(element));
  } else if constexpr (sizeof(Element) == 4) {
    element = burnlike::detail::float_of(bits.words[value]);
  } else if constexpr (sizeof(Element) == 2) {
    element = {static_cast<uint16_t>(bits.words[value / 2] >> (value % 2 * 16))};
  } else {
    element = static_cast<Element>(static_cast<uint8_t>(bits.words[value / 4] >> (value % 4 * 8)));
  }
  return element;
}

// In the order of the values, beginning with the first.
template <class Element, class Accumulate>
__device__ __forceinline__ void set_element(GroupBits<Accumulate>& bits, int value, Element element) {
  if constexpr (sizeof(Element) == 8) {
    uint64_t pattern;
    memcpy(&pattern, &element, sizeof(element));
    bits.words[2 * value] = static_cast<uint32_t>(pattern);
    bits.words[2 * value + 1] = static_cast<uint32_t>(pattern >> 32);
  } else if constexpr (sizeof(Element) == 4) {
    bits.words[value] = burnlike::detail::bits_of(element);
  } else if constexpr (sizeof(Element) == 2) {
    const uint32_t before = value % 2 == 0 ? 0 : bits.words[value / 2];
    bits.words[value / 2] = before | static_cast<uint32_t>(element.bits) << (value % 2 * 16);
  } else {
    const uint32_t before = value % 4 == 0 ? 0 : bits.words[value / 4];
    bits.words[value / 4] = before | static_cast<uint32_t>(static_cast<uint8_t>(element)) << (value % 4 * 8);
  }
}

template <class Element, class Accumulate>
__device__ __forceinline__ void convert_elements(const GroupBits<Accumulate>& bits, Accumulate* values) {
#pragma unroll
  for (int value = 0; value < kGroupValues; ++value) {
    values[value] = static_cast<Accumulate>(load(element_of<Element>(bits, value)));
  }
}

template <class Code, class Accumulate>
__device__ __forceinline__ void decode_elements(const GroupBits<Accumulate>& bits, float scale, Accumulate* values) {
#pragma unroll
  for (int value = 0; value < kGroupValues; ++value) {
    values[value] = static_cast<Accumulate>(decoded(element_of<Code>(bits, value), scale));
  }
}

template <class Element, class Place, class Accumulate>
__device__ __forceinline__ void round_elements(
    const Accumulate* values, const GroupRounding& rounding, GroupBits<Accumulate>& bits) {
  if constexpr (sizeof(Element) == 2) {
    if (rounding.stochastic) {
#pragma unroll
      for (int value = 0; value < kGroupValues; ++value) {
        const float exact = static_cast<float>(values[value]);
        set_element(bits, value, StochasticStore<Element>::from(exact, rounding.bits(Place::offset(value))));
      }
      return;
    }
  }
#pragma unroll
  for (int value = 0; value < kGroupValues; ++value) {
    set_element(bits, value, converted<Element>(values[value]));
  }
}

template <class Code, class Place, class Accumulate>
__device__ __forceinline__ void encode_elements(
    const Accumulate* values, const Place& group, float scale, const GroupRounding& rounding,
    GroupBits<Accumulate>& bits) {
  const bool codable = is_codable(scale);
#pragma unroll
  for (int value = 0; value < kGroupValues; ++value) {
    const float exact = static_cast<float>(values[value]);
    Code code = 0;
    // Behind the end of the tensor there may be anything, which the scale does not fit.
    if (codable && group.has(value)) {
      code = rounding.stochastic ? encoded<Code>(exact, scale, uniform(rounding.bits(Place::offset(value))))
                                 : encoded<Code>(exact, scale);
    }
    set_element(bits, value, code);
  }
}

}  // namespace detail

// For floats.
template <class Accumulate>
__device__ __forceinline__ void unpack(Storage storage, const GroupBits<Accumulate>& bits, Accumulate* values) {
  if constexpr (sizeof(Accumulate) == 8) {
    if (storage == Storage::kFloat64) return detail::convert_elements<double>(bits, values);
  }
  if (storage == Storage::kBFloat16) return detail::convert_elements<BFloat16>(bits, values);
  if (storage == Storage::kFloat16) return detail::convert_elements<Float16>(bits, values);
  detail::convert_elements<float>(bits, values);
}

// For codes; `scale` is that of the values' block.
template <class Accumulate>
__device__ __forceinline__ void unpack_codes(
    Storage storage, const GroupBits<Accumulate>& bits, float scale, Accumulate* values) {
  if (storage == Storage::kSigned8) return detail::decode_elements<int8_t>(bits, scale, values);
  detail::decode_elements<uint8_t>(bits, scale, values);
}

// For floats. `Place` says where the values lie.
template <class Place, class Accumulate>
__device__ __forceinline__ void pack(
    Storage storage, const Accumulate* values, const GroupRounding& rounding, GroupBits<Accumulate>& bits) {
  if constexpr (sizeof(Accumulate) == 8) {
    if (storage == Storage::kFloat64) return detail::round_elements<double, Place>(values, rounding, bits);
  }
  if (storage == Storage::kBFloat16) return detail::round_elements<BFloat16, Place>(values, rounding, bits);
  if (storage == Storage::kFloat16) return detail::round_elements<Float16, Place>(values, rounding, bits);
  detail::round_elements<float, Place>(values, rounding, bits);
}

// For codes.
template <class Place, class Accumulate>
__device__ __forceinline__ void pack_codes(
    Storage storage, const Accumulate* values, const Place& group, float scale, const GroupRounding& rounding,
    GroupBits<Accumulate>& bits) {
  if (storage == Storage::kSigned8) return detail::encode_elements<int8_t>(values, group, scale, rounding, bits);
  detail::encode_elements<uint8_t>(values, group, scale, rounding, bits);
}

// The largest magnitude of a warp's values, which are a block. All threads of the warp call it together.
template <class Place, class Accumulate>
__device__ __forceinline__ float scale_of_block(const Accumulate* values, const Place& group) {
  int32_t largest = 0;
#pragma unroll
  for (int value = 0; value < kGroupValues; ++value) {
    const int32_t magnitude = magnitude_bits(static_cast<float>(values[value]));
    if (group.has(value) && magnitude > largest) largest = magnitude;
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
  }
  return burnlike::detail::float_of(static_cast<uint32_t>(largest));
}

}  // namespace burnlike::cuda
