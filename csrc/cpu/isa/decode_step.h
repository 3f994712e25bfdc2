// The kernels of a step of decoding beside its products: their bodies are in decode_step.inl.
#pragma once

#include <cstdint>

#include "burnlike/activations.h"
#include "burnlike/rotary.h"
#include "burnlike/scalar_math.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// How a row is normalized: by its root mean square, or by mean and variance where there is `beta` or `centered`.
struct DecodeNorm {
  const float* gamma;
  const float* beta;  // or null
  float epsilon;
  bool centered;
};

// Of a head, at most.
inline constexpr int64_t kMostHeadWidth = 1024;

enum class DecodeActivation : int64_t { kSilu, kGelu, kTanhGelu, kRelu };

// The heads of one row that share a head of keys and values.
template <class Element>
struct DecodeHeads {
  float* query;  // `[group, width]`; its rotation and the result are written over it
  float* key;    // `[width]`, which the cache gets; null where all slots are filled
  const float* value;
  Element* keys;  // of the cache, `[length, width]`
  Element* values;
  int64_t key_stride, value_stride;
  int64_t group, width;
  int64_t first, last;  // the slots that are seen; a new one is `last`
  const float* cosine;  // `[half]`, or null
  const float* sine;
  int64_t half;
  bool interleaved;
  DecodeNorm query_norm, key_norm;  // without a gamma: none
  float scale;
  float soft_cap;     // 0: none
  const float* bias;  // of the scores by the distance from `last`, `[group, bias_stride]`; or null
  int64_t bias_stride;
};

template <class Element>
struct DecodeHeadsKernel {
  void (*run)(const DecodeHeads<Element>&);
};

struct DecodeTable {
  DecodeHeadsKernel<float> float32;
  DecodeHeadsKernel<BFloat16> bfloat16;
  void (*normalize)(const DecodeNorm&, const float* x, float* y, int64_t width);
  // values = activation(values) * factors, or without factors, which are null.
  void (*activate)(DecodeActivation activation, float* values, const float* factors, int64_t count);

  const DecodeHeadsKernel<float>& operator()(float) const { return float32; }
  const DecodeHeadsKernel<BFloat16>& operator()(BFloat16) const { return bfloat16; }
};

BURNLIKE_KERNELS(DecodeTable, decode_step_kernels)

}  // namespace burnlike::cpu
