// What both passes of attention in bfloat16 have in common: sizes and options of a call, and how its rows are packed.
#pragma once

#include <algorithm>

#include "attention_heads.h"
#include "isa/attention_bf16.h"

namespace burnlike::cpu {

// What both passes have in common.
struct Bf16Attention {
  AttentionSizes sizes;
  bool causal;
  float scale;
  float soft_cap;  // 0 for none
  AttentionBias bias;
  AttentionBias noise;  // float32

  static int64_t lanes(int64_t count) { return (count + kBf16Lanes - 1) / kBf16Lanes * kBf16Lanes; }

  int64_t width() const { return lanes(sizes.width); }
  int64_t blocks() const { return (sizes.columns() + kBf16Columns - 1) / kBf16Columns; }  // of queries
  int64_t columns(int64_t block) const { return std::min(kBf16Columns, sizes.columns() - block * kBf16Columns); }

  // What the columns of a block see of `rows` keys.
  Bf16Seen seen(int64_t block, int64_t key, int64_t rows) const {
    const int64_t group = causal ? sizes.group() : 0;
    return {rows, columns(block), causal ? key * group - block * kBf16Columns : 0, group};
  }

  // Rows lie apart, so that the processor does not see which come next: later ones are asked for in time.
  void prefetch(const Heads<const BFloat16>& heads, const BFloat16* row, int64_t place) const {
    constexpr int64_t kAhead = 8, kCacheLine = 64 / sizeof(BFloat16);
    if (place + kAhead >= heads.length) return;
    const BFloat16* later = row + kAhead * heads.strides[2];
    for (int64_t index = 0; index < sizes.width; index += kCacheLine) __builtin_prefetch(later + index);
  }

  // Some rows of a problem as a matrix of whole lanes.
  void pack_rows(const Heads<const BFloat16>& heads, int64_t problem, Range rows, BFloat16* matrix) const {
    const int64_t rest = width() - sizes.width;
    for_rows(heads.heads, sizes, problem, rows, [&](int64_t batch, int64_t head, int64_t place, int64_t) {
      const BFloat16* row = heads.row(batch, head, place);
      prefetch(heads, row, place);
      matrix = std::copy_n(row, sizes.width, matrix);
      matrix = std::fill_n(matrix, rest, BFloat16{});
    });
    const int64_t count = rows.end - rows.begin;
    std::fill_n(matrix, (lanes(count) - count) * width(), BFloat16{});
  }

  // Options of `rows` keys from `key` on, with the bias and noise of a block of queries in a thread's memory.
  Bf16Scores options(
      const Bf16AttentionKernels& kernels, int64_t problem, int64_t key, int64_t rows, int64_t block, float* biases,
      float* noises) const {
    const Range keys{key, key + rows}, queries{block * kBf16Columns, block * kBf16Columns + columns(block)};
    if (bias.data != nullptr) read(bias, kernels.transpose_bf16, problem, keys, queries, biases);
    if (noise.data != nullptr) read(noise, kernels.transpose_floats, problem, keys, queries, noises);
    return {bias.data == nullptr ? nullptr : biases, noise.data == nullptr ? nullptr : noises, scale, soft_cap};
  }

  template <class Element>
  void read(
      const AttentionBias& from, void (*transpose)(const Element* const*, int64_t, int64_t, float*), int64_t problem,
      Range keys, Range queries, float* values) const {
    if (from.strides[3] != 1) {
      read_bias<float>(from, sizes, problem, keys, queries, kBf16Columns, values);
      return;
    }
    const Element* rows[kBf16Columns];
    for_rows(sizes.heads, sizes, problem, queries, [&](int64_t batch, int64_t head, int64_t place, int64_t row) {
      rows[row - queries.begin] = static_cast<const Element*>(from.data) + batch * from.strides[0] +
                                  head * from.strides[1] + place * from.strides[2] + keys.begin;
    });
    transpose(rows, queries.end - queries.begin, keys.end - keys.begin, values);
  }
};

}  // namespace burnlike::cpu
