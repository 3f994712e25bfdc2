// The kernels of attention in bfloat16 on processors that multiply it (AVX-512 BF16), of matrices that are packed for
// them: their bodies are in attention_bf16.inl.
//
// A word is a pair of bfloat16 that is multiplied with another pair and added to one float32. Of a matrix with the
// columns that are summed over in pairs:
//   rows      `[rows, pairs]`, as in memory; each word is multiplied with a whole row of the other side
//   lanes     `[pairs, rows]`, transposed by words
//   pairs     `[rows / 2, columns]`, where it is summed over rows: words of two rows
// All sizes are whole lanes (16), filled up with zeros.
#pragma once

#include <cstdint>

#include "burnlike/element.h"
#include "burnlike/logarithm.h"
#include "kernel_table.h"

namespace burnlike::cpu {

typedef uint32_t __attribute__((may_alias)) Word;

constexpr int64_t kBf16Lanes = 16;
constexpr int64_t kBf16Columns = 64;  // queries of a block

// Which scores of a block exist and are seen: row `r` (a key) is hidden from the columns below `first + r * step`.
struct Bf16Seen {
  int64_t rows;
  int64_t columns;
  int64_t first;
  int64_t step;  // 0 if no key is hidden
};

// What becomes of the scores of a block before and after their softmax.
struct Bf16Scores {
  const float* bias;   // `[rows, kBf16Columns]`, added to the scaled scores, or null
  const float* noise;  // the same, multiplied with the weights, or null
  float scale;
  float soft_cap;  // scaled scores s become cap * tanh(s / cap), unless it is 0
};

// Some keys with up to kBf16Columns queries: weights, their sums and the weighted sums of values so far.
struct Bf16ForwardBlock {
  const Word* keys;     // rows
  const Word* queries;  // lanes, `[width / 2, kBf16Columns]`
  const Word* values;   // pairs
  Bf16Scores options;
  float* scores;   // `[rows, kBf16Columns]`
  Word* weights;   // pairs, `[rows / 2, kBf16Columns]`
  float* largest;  // of each column so far
  float* sums;     // of the exponentials of each column so far
  float* output;   // `[kBf16Columns, width]`, before it is divided by the sums
  int64_t width;
  Bf16Seen seen;
  bool is_first;
};

// Some keys with up to kBf16Columns queries: adds to the gradients, of which those of keys and queries lack the scale.
struct Bf16BackwardBlock {
  const Word* keys;         // rows
  const Word* key_pairs;    // pairs
  const Word* values;       // rows
  const Word* queries;      // lanes, `[width / 2, kBf16Columns]`
  const Word* query_pairs;  // pairs
  const Word* grads;        // lanes, of the output
  const Word* grad_pairs;   // pairs
  Bf16Scores options;
  const float* largest;          // of each column: its largest score
  const float* logarithms;       // of each column: of its sum of exponentials
  const float* deltas;           // of each column
  float* scores;                 // kBf16Lanes x kBf16Columns twice
  BFloat16* weights;             // kBf16Lanes x kBf16Columns twice
  Word* grad_score_pairs;        // pairs, `[rows / 2, kBf16Columns]`
  float *grad_key, *grad_value;  // `[rows, width]`
  float* grad_query;             // `[kBf16Columns, width]`
  int64_t width;
  Bf16Seen seen;
};

struct Bf16AttentionKernels {
  void (*forward)(const Bf16ForwardBlock&);
  void (*backward)(const Bf16BackwardBlock&);

  // Packs `rows` rows of `width` values; lanes are `[width / 2, kBf16Columns]`.
  void (*to_lanes)(const BFloat16* matrix, int64_t rows, int64_t width, Word* lanes);
  void (*to_pairs)(const BFloat16* matrix, int64_t rows, int64_t width, Word* pairs);

  // `values[key, column]` of `columns` rows, each of `count` keys; rows of values are kBf16Columns apart.
  void (*transpose_floats)(const float* const* rows, int64_t columns, int64_t count, float* values);
  void (*transpose_bf16)(const BFloat16* const* rows, int64_t columns, int64_t count, float* values);

  float (*dot)(const BFloat16* x, const BFloat16* y, int64_t count);

  // Of each column: by what the output is multiplied, and the logarithm of the sum of exponentials. Without any weight
  // the output and the largest score are zero, and the logarithm infinite, so that there is none in the backward pass.
  void (*finish)(float* largest, const float* sums, float* factors, float* logarithms);

  // y = factor x, rounded.
  void (*round)(const float* x, float factor, BFloat16* y, int64_t count);
};

#if defined(__x86_64__)
namespace isa_avx512_bf16 {
extern const Bf16AttentionKernels attention_bf16_kernels;
}
#endif

// Pairs of values in memory.
inline const Word* words(const BFloat16* matrix) { return reinterpret_cast<const Word*>(matrix); }

// Null where the instruction set in use does not multiply bfloat16.
inline const Bf16AttentionKernels* attention_bf16_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::kAvx512Bf16) return &isa_avx512_bf16::attention_bf16_kernels;
#endif
  return nullptr;
}

}  // namespace burnlike::cpu
