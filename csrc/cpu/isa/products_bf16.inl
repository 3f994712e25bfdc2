// Products of matrices in bfloat16 with sums in float32 that stay in registers, and the packing of their sides.

namespace {

using Lanes = __m512;

// Words of the left side: that of a row and a step is at `row * row_stride + step * step_stride`.
struct Words {
  const Word* data;
  int64_t row_stride;
  int64_t step_stride;
};

inline __m512bh words_of(const Word* words) { return (__m512bh)_mm512_loadu_si512(words); }

// `product[rows, 16 * kVectors]` of words x lanes, or added to it.
template <int kRows, int kVectors, bool kAdd>
__attribute__((noinline)) void multiply_strip(
    const Words& left, const Word* right, int64_t right_stride, int64_t steps, float* product, int64_t product_stride,
    int64_t rows) {
  for (int64_t first = 0; first < rows; first += kRows) {
    Lanes sums[kRows][kVectors];
    float* target = product + first * product_stride;
    for (int row = 0; row < kRows; ++row) {
      for (int vector = 0; vector < kVectors; ++vector) {
        const float* from = target + row * product_stride + vector * kBf16Lanes;
        sums[row][vector] = kAdd ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
      }
    }
    const Word* words = left.data + first * left.row_stride;
    for (int64_t step = 0; step < steps; ++step) {
      __m512bh lanes[kVectors];
      for (int vector = 0; vector < kVectors; ++vector) {
        lanes[vector] = words_of(right + step * right_stride + vector * kBf16Lanes);
      }
      for (int row = 0; row < kRows; ++row) {
        const Word word = words[row * left.row_stride + step * left.step_stride];
        const __m512bh pair = (__m512bh)_mm512_set1_epi32(static_cast<int>(word));
        for (int vector = 0; vector < kVectors; ++vector) {
          sums[row][vector] = _mm512_dpbf16_ps(sums[row][vector], pair, lanes[vector]);
        }
      }
    }
    for (int row = 0; row < kRows; ++row) {
      for (int vector = 0; vector < kVectors; ++vector) {
        _mm512_storeu_ps(target + row * product_stride + vector * kBf16Lanes, sums[row][vector]);
      }
    }
  }
}

// The same for any number of vectors; `rows` are whole lanes. Sixteen sums or more at a time, as each takes some
// cycles.
template <bool kAdd>
void multiply(
    const Words& left, const Word* right, int64_t right_stride, int64_t steps, float* product, int64_t product_stride,
    int64_t rows, int64_t vectors) {
  for (; vectors >= 4; vectors -= 4, right += 4 * kBf16Lanes, product += 4 * kBf16Lanes) {
    multiply_strip<4, 4, kAdd>(left, right, right_stride, steps, product, product_stride, rows);
  }
  if (vectors == 3) multiply_strip<8, 3, kAdd>(left, right, right_stride, steps, product, product_stride, rows);
  if (vectors == 2) multiply_strip<8, 2, kAdd>(left, right, right_stride, steps, product, product_stride, rows);
  if (vectors == 1) multiply_strip<16, 1, kAdd>(left, right, right_stride, steps, product, product_stride, rows);
}

// Transposes 16 x 16 words in registers, by pairs, fours and then quarters of registers.
inline void transpose_words(__m512i* x) {
  __m512i y[16];
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    y[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
    y[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xDD);
    y[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
    y[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xDD);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0x88);
    x[i + 4] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0x88);
    x[i + 8] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0xDD);
    x[i + 12] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0xDD);
  }
}

void to_lanes(const BFloat16* matrix, int64_t rows, int64_t width, Word* lanes) {
  for (int64_t row = 0; row < rows; row += kBf16Lanes) {
    for (int64_t begin = 0; begin < width; begin += 2 * kBf16Lanes) {
      const int count = width - begin < 2 * kBf16Lanes ? 8 : 16;  // widths are multiples of 16 values
      const __mmask16 mask = count == 8 ? 0xFF : 0xFFFF;
      __m512i words[16];
      for (int index = 0; index < 16; ++index) {
        words[index] = _mm512_maskz_loadu_epi32(mask, matrix + (row + index) * width + begin);
      }
      transpose_words(words);
      Word* target = lanes + begin / 2 * kBf16Columns + row;
      for (int index = 0; index < count; ++index) _mm512_storeu_si512(target + index * kBf16Columns, words[index]);
    }
  }
}

void to_pairs(const BFloat16* matrix, int64_t rows, int64_t width, Word* pairs) {
  for (int64_t row = 0; row < rows; row += 2) {
    const BFloat16* __restrict__ even = matrix + row * width;
    const BFloat16* __restrict__ odd = even + width;
    Word* __restrict__ target = pairs + row / 2 * width;
    for (int64_t column = 0; column < width; ++column) {
      target[column] = even[column].bits | static_cast<uint32_t>(odd[column].bits) << 16;
    }
  }
}

// Some values as floats, from `row` on; zeros beyond them.
inline __m512i floats_of(const float* row, __mmask16 mask) { return _mm512_maskz_loadu_epi32(mask, row); }

inline __m512i floats_of(const BFloat16* row, __mmask16 mask) {
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row)), 16);
}

template <class Element>
void transpose(const Element* const* rows, int64_t columns, int64_t count, float* values) {
  for (int64_t column = 0; column < columns; column += kBf16Lanes) {
    for (int64_t begin = 0; begin < count; begin += kBf16Lanes) {
      const int64_t width = count - begin < kBf16Lanes ? count - begin : kBf16Lanes;
      const __mmask16 mask = static_cast<__mmask16>((1u << width) - 1);
      __m512i words[16];
      for (int index = 0; index < 16; ++index) {
        const bool is_row = column + index < columns;
        words[index] = is_row ? floats_of(rows[column + index] + begin, mask) : _mm512_setzero_si512();
      }
      transpose_words(words);
      float* target = values + begin * kBf16Columns + column;
      for (int64_t index = 0; index < width; ++index) _mm512_storeu_si512(target + index * kBf16Columns, words[index]);
    }
  }
}

// Two rows of 16 values: the first in the lower half of the bits of all, the second in the upper.
inline __m512i rounded(Lanes even, Lanes odd) { return (__m512i)_mm512_cvtne2ps_pbh(odd, even); }

// The same as words.
inline __m512i paired(__m512i rows) {
  const __m512i places = _mm512_set_epi16(
      31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16,
      0);
  return _mm512_permutexvar_epi16(places, rows);
}

float dot(const BFloat16* x, const BFloat16* y, int64_t count) {
  Lanes sum = _mm512_setzero_ps();
  for (int64_t begin = 0; begin < count; begin += 2 * kBf16Lanes) {
    const __mmask32 mask = count - begin < 2 * kBf16Lanes ? (1u << (count - begin)) - 1 : 0xFFFFFFFF;
    sum = _mm512_dpbf16_ps(
        sum, (__m512bh)_mm512_maskz_loadu_epi16(mask, x + begin), (__m512bh)_mm512_maskz_loadu_epi16(mask, y + begin));
  }
  return _mm512_reduce_add_ps(sum);
}

void round_values(const float* x, float factor, BFloat16* y, int64_t count) {
  for (int64_t begin = 0; begin < count; begin += kBf16Lanes) {
    const __mmask16 mask = count - begin < kBf16Lanes ? (1u << (count - begin)) - 1 : 0xFFFF;
    const Lanes values = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + begin), _mm512_set1_ps(factor));
    _mm256_mask_storeu_epi16(y + begin, mask, (__m256i)_mm512_cvtneps_pbh(values));
  }
}

}  // namespace
