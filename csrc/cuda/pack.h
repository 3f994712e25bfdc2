// Several values that are read, converted and written as one.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "burnlike/element.h"

namespace burnlike::cuda {

// More than 16 bytes are packs of 16 side by side: no access of memory is larger, and no address need be more even.
template <class Element, int kCount>
struct alignas(sizeof(Element) * kCount < 16 ? sizeof(Element) * kCount : 16) Pack {
  Element values[kCount];
};

template <class Element, int kCount>
__host__ __device__ __forceinline__ bool is_packed(const Element* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(Pack<Element, kCount>) == 0;
}

// Reads a pack, 16 bytes at a time. By name, as `write_values` is: assignments of packs are taken apart by the compiler
// where each value goes another way, and 16 loads or stores of 2 bytes are left. .ci/compile_check.py counts them.
template <int kCount, class Element>
__device__ __forceinline__ Pack<Element, kCount> read_values(const Element* from) {
  Pack<Element, kCount> pack;
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(pack) % 16 == 0) {
    uint4 words[sizeof(pack) / 16];
#pragma unroll
    for (size_t word = 0; word < sizeof(pack) / 16; ++word) words[word] = reinterpret_cast<const uint4*>(from)[word];
    std::memcpy(&pack, words, sizeof(pack));
    return pack;
  }
#endif
  pack = *reinterpret_cast<const Pack<Element, kCount>*>(from);
  return pack;
}

template <class Element, int kCount>
__device__ __forceinline__ void write_values(Element* to, const Pack<Element, kCount> pack) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(pack) % 16 == 0) {
    uint4 words[sizeof(pack) / 16];
    std::memcpy(words, &pack, sizeof(pack));
    const size_t place = __cvta_generic_to_global(to);
#pragma unroll
    for (size_t word = 0; word < sizeof(pack) / 16; ++word) {
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                   :
                   : "l"(place + 16 * word), "r"(words[word].x), "r"(words[word].y), "r"(words[word].z),
                     "r"(words[word].w)
                   : "memory");
    }
    return;
  }
#endif
  *reinterpret_cast<Pack<Element, kCount>*>(to) = pack;
}

// The values in the type that is computed in.
template <class Element, int kCount>
__device__ __forceinline__ Pack<accumulate_t<Element>, kCount> unpacked(const Pack<Element, kCount>& pack) {
  Pack<accumulate_t<Element>, kCount> values;
#pragma unroll
  for (int lane = 0; lane < kCount; ++lane) values.values[lane] = load(pack.values[lane]);
  return values;
}

// A pack as words, to be kept for long: of a pack, values of 2 bytes have a register each.
template <class Element, int kCount>
struct RawPack {
  uint32_t words[sizeof(Element) * kCount / 4];

  __device__ __forceinline__ Pack<accumulate_t<Element>, kCount> unpacked() const {
    Pack<accumulate_t<Element>, kCount> values;
#pragma unroll
    for (int lane = 0; lane < kCount; ++lane) {
      if constexpr (sizeof(Element) == 2) {
        const uint32_t word = words[lane / 2];
        values.values[lane] = load(Element{static_cast<uint16_t>(lane % 2 == 0 ? word & 0xFFFFu : word >> 16)});
      } else {
        values.values[lane] = burnlike::detail::float_of(words[lane]);
      }
    }
    return values;
  }
};

template <int kCount, class Element>
__device__ __forceinline__ RawPack<Element, kCount> read_raw(const Element* from) {
  constexpr int kWords = sizeof(Element) * kCount / 4;
  const Pack<uint32_t, kWords> words = read_values<kWords>(reinterpret_cast<const uint32_t*>(from));
  RawPack<Element, kCount> raw;
  std::memcpy(&raw, &words, sizeof(raw));
  return raw;
}

namespace detail {

#if defined(__CUDA_ARCH__)
// Two values as the halves of a word, by one instruction.
__device__ __forceinline__ uint32_t rounded_pair(BFloat16, float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  uint32_t word;
  std::memcpy(&word, &pair, sizeof(word));
  return word;
}

__device__ __forceinline__ uint32_t rounded_pair(Float16, float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  uint32_t word;
  std::memcpy(&word, &pair, sizeof(word));
  return word;
}
#endif

}  // namespace detail

// The values rounded to the type of memory.
template <class Element, int kCount>
__device__ __forceinline__ Pack<Element, kCount> rounded(const Pack<accumulate_t<Element>, kCount>& values) {
  Pack<Element, kCount> pack;
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Element) == 2 && kCount % 2 == 0) {
    uint32_t words[kCount / 2];
#pragma unroll
    for (int pair = 0; pair < kCount / 2; ++pair) {
      words[pair] = detail::rounded_pair(Element{}, values.values[2 * pair], values.values[2 * pair + 1]);
    }
    std::memcpy(&pack, words, sizeof(pack));
    return pack;
  }
#endif
#pragma unroll
  for (int lane = 0; lane < kCount; ++lane) pack.values[lane] = store<Element>(values.values[lane]);
  return pack;
}

}  // namespace burnlike::cuda
