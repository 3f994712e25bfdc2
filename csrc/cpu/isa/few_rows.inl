// Products of a few rows with a weight. What they cost is to read the weight: once, in runs as long as a tile, without
// a copy of it in another order.

namespace {

constexpr int kDepth = 8;  // rows of the weight that are read side by side
// Vectors of columns that are in registers at a time, beside those of `rows` sums each: bytes come in whole lines.
constexpr int few_rows_wide(int rows, int weight_size) {
  if (kVector < 16) return 1;
  return weight_size == 1 && rows <= 4 ? 4 : 2;
}
// Not a power of two, whose rows would share the same few lines of the first cache.
constexpr int64_t kSumStride = kTileColumns + 16;

// Adds the products with `kDepth` rows of the weight to the sums `[kRows][kSumStride]`.
template <int kRows, int kDepthNow, class Weight>
BURNLIKE_INLINE void add_depth(const Weight* weight, int64_t stride, int64_t columns, const float* xs, float* sums) {
  constexpr int kWide = few_rows_wide(kRows, sizeof(Weight));
  int64_t column = 0;
  for (; column + kWide * kVector <= columns; column += kWide * kVector) {
    const float* inputs = xs;
    asm("" : "+r"(inputs));  // or vectors of them would be made before the loop, more than there are registers
    FloatVector sum[kRows][kWide];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int part = 0; part < kWide; ++part) {
        sum[row][part] = load_vector(sums + row * kSumStride + column + part * kVector);
      }
    }
#pragma GCC unroll 8
    for (int depth = 0; depth < kDepthNow; ++depth) {
      const Weight* here = weight + depth * stride + column;
      FloatVector weights[kWide];
#pragma GCC unroll 4
      for (int part = 0; part < kWide; ++part) {
        if (part * kVector * sizeof(Weight) % 64 == 0) {
          __builtin_prefetch(here + kDepthNow * stride + part * kVector, 0, 2);
        }
        weights[part] = load_vector(here + part * kVector);
      }
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        const FloatVector x = all_of(inputs[depth * kRows + row]);
#pragma GCC unroll 4
        for (int part = 0; part < kWide; ++part) sum[row][part] = multiply_add(weights[part], x, sum[row][part]);
      }
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int part = 0; part < kWide; ++part) {
        store_vector(sums + row * kSumStride + column + part * kVector, sum[row][part]);
      }
    }
  }
  for (; column < columns; ++column) {
    for (int depth = 0; depth < kDepthNow; ++depth) {
      const float value = float_of(weight[depth * stride + column]);
      for (int row = 0; row < kRows; ++row) sums[row * kSumStride + column] += value * xs[depth * kRows + row];
    }
  }
}

// `count` inputs of each row from `input` on; those with scales are written into `xs`.
template <int kRows, class Weight>
BURNLIKE_INLINE const float* packed_inputs(
    const FewRows<Weight>& product, int64_t first, int64_t input, int count, float* xs) {
  const float* packed = product.packed + first * product.d_input + input * kRows;
  if (product.input_scale == nullptr) return packed;
  for (int depth = 0; depth < count; ++depth) {
    const float scale = product.input_scale[input + depth];
    for (int row = 0; row < kRows; ++row) xs[depth * kRows + row] = packed[depth * kRows + row] * scale;
  }
  return xs;
}

template <class Weight>
BURNLIKE_INLINE void give_sum(const FewRows<Weight>& product, int64_t row, int64_t column, float sum) {
  float* y = product.y + row * product.y_stride + column;
  if (product.bias != nullptr) sum += product.bias[column];
  *y = product.adds ? *y + sum : sum;
}

template <class Weight>
void give_sums(const FewRows<Weight>& product, int64_t row, float* __restrict__ sums) {
  float* __restrict__ y = product.y + row * product.y_stride;
  const float* __restrict__ bias = product.bias;
  if (bias != nullptr) {
    for (int64_t column = 0; column < product.columns; ++column) sums[column] += bias[column];
  }
  if (product.adds) {
    for (int64_t column = 0; column < product.columns; ++column) y[column] += sums[column];
  } else {
    for (int64_t column = 0; column < product.columns; ++column) y[column] = sums[column];
  }
}

template <int kRows, class Weight>
void few_rows_plain(const FewRows<Weight>& product, int64_t first) {
  alignas(64) float sums[kRows * kSumStride];
  for (int row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < product.columns; ++column) sums[row * kSumStride + column] = 0;
  }
  float memory[kDepth * kRows];
  int64_t input = 0;
  for (; input + kDepth <= product.d_input; input += kDepth) {
    const float* xs = packed_inputs<kRows>(product, first, input, kDepth, memory);
    add_depth<kRows, kDepth>(product.weight + input * product.stride, product.stride, product.columns, xs, sums);
  }
  for (; input < product.d_input; ++input) {
    const float* xs = packed_inputs<kRows>(product, first, input, 1, memory);
    add_depth<kRows, 1>(product.weight + input * product.stride, product.stride, product.columns, xs, sums);
  }
  for (int row = 0; row < kRows; ++row) give_sums(product, first + row, sums + row * kSumStride);
}

// Rows of x with columns of W that lie in one piece each.
template <int kRows, int kColumns, class Weight>
BURNLIKE_INLINE void few_dots(const FewRows<Weight>& product, int64_t first, int64_t column) {
  FloatVector sum[kRows][kColumns];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int part = 0; part < kColumns; ++part) sum[row][part] = FloatVector{};
  }
  const Weight* weight = product.weight + column * product.stride;
  const float* x = product.x + first * product.x_stride;
  const int64_t whole = product.d_input / kVector * kVector;
  for (int64_t input = 0; input < whole; input += kVector) {
    FloatVector weights[kColumns];
#pragma GCC unroll 16
    for (int part = 0; part < kColumns; ++part) {
      __builtin_prefetch(weight + part * product.stride + input + 1024 / sizeof(Weight), 0, 3);
      weights[part] = load_vector(weight + part * product.stride + input);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const FloatVector values = load_vector(x + row * product.x_stride + input);
#pragma GCC unroll 16
      for (int part = 0; part < kColumns; ++part) {
        sum[row][part] = multiply_add(weights[part], values, sum[row][part]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int part = 0; part < kColumns; ++part) {
      float total = sum_of(sum[row][part]);
      for (int64_t input = whole; input < product.d_input; ++input) {
        total += float_of(weight[part * product.stride + input]) * x[row * product.x_stride + input];
      }
      give_sum(product, first + row, column + part, total);
    }
  }
}

template <int kRows, class Weight>
void few_rows_transposed(const FewRows<Weight>& product, int64_t first) {
  constexpr int kColumns = kVector == 16 ? 4 : 2;
  int64_t column = 0;
  for (; column + kColumns <= product.columns; column += kColumns) few_dots<kRows, kColumns>(product, first, column);
  for (; column < product.columns; ++column) few_dots<kRows, 1>(product, first, column);
}

// Calls the function for up to `kMost` rows at a time.
template <class Weight, size_t kMost>
BURNLIKE_INLINE void few_rows_any(
    const FewRows<Weight>& product, void (*const (&functions)[kMost])(const FewRows<Weight>&, int64_t)) {
  constexpr int64_t most = kMost;
  for (int64_t first = 0; first < product.rows; first += most) {
    const int64_t rest = product.rows - first;
    functions[(rest < most ? rest : most) - 1](product, first);
  }
}

template <class Weight>
void few_rows_plain_any(const FewRows<Weight>& product) {
  static constexpr void (*functions[kRowsAtATime])(const FewRows<Weight>&, int64_t) = {
      few_rows_plain<1>, few_rows_plain<2>, few_rows_plain<3>, few_rows_plain<4>,
      few_rows_plain<5>, few_rows_plain<6>, few_rows_plain<7>, few_rows_plain<8>};
  few_rows_any(product, functions);
}

template <class Weight>
void few_rows_transposed_any(const FewRows<Weight>& product) {
  static constexpr void (*functions[])(const FewRows<Weight>&, int64_t) = {
      few_rows_transposed<1>, few_rows_transposed<2>, few_rows_transposed<3>, few_rows_transposed<4>};
  few_rows_any(product, functions);
}

#if defined(BURNLIKE_BFLOAT16_512)

// Two rows of the weight at a time, interleaved as VDPBF16PS takes them: in each run of 8 columns the first 4 are in
// one vector and the others in the next.
template <int kRows>
BURNLIKE_BFLOAT16_512 void few_rows_bfloat16(const FewRows<BFloat16>& product, int64_t first) {
  constexpr int64_t kColumns = 32;
  alignas(64) float sums[kRows * kSumStride];
  const int64_t whole = product.columns / kColumns * kColumns;
  const int64_t deep = product.d_input / kDepth * kDepth;
  for (int row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < whole; ++column) sums[row * kSumStride + column] = 0;
  }
  for (int64_t input = 0; input < deep; input += kDepth) {
    uint32_t xs[kDepth / 2 * kRows];
    for (int pair = 0; pair < kDepth / 2; ++pair) {
      const float* x = product.packed + first * product.d_input + (input + 2 * pair) * kRows;
      for (int row = 0; row < kRows; ++row) {
        const uint32_t high = store<BFloat16>(x[kRows + row]).bits;
        xs[pair * kRows + row] = high << 16 | store<BFloat16>(x[row]).bits;
      }
    }
    const BFloat16* weight = product.weight + input * product.stride;
    for (int64_t column = 0; column < whole; column += kColumns) {
      const uint32_t* inputs = xs;
      asm("" : "+r"(inputs));
      __m512 sum[kRows][2];
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        sum[row][0] = _mm512_load_ps(sums + row * kSumStride + column);
        sum[row][1] = _mm512_load_ps(sums + row * kSumStride + column + 16);
      }
#pragma GCC unroll 4
      for (int pair = 0; pair < kDepth / 2; ++pair) {
        const BFloat16* upper = weight + 2 * pair * product.stride + column;
        const BFloat16* lower = upper + product.stride;
        __builtin_prefetch(upper + kDepth * product.stride, 0, 2);
        __builtin_prefetch(lower + kDepth * product.stride, 0, 2);
        const __m512i even = _mm512_loadu_si512(upper);
        const __m512i odd = _mm512_loadu_si512(lower);
        const __m512bh low = __m512bh(_mm512_unpacklo_epi16(even, odd));
        const __m512bh high = __m512bh(_mm512_unpackhi_epi16(even, odd));
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
          const __m512bh x = __m512bh(_mm512_set1_epi32(static_cast<int>(inputs[pair * kRows + row])));
          sum[row][0] = _mm512_dpbf16_ps(sum[row][0], low, x);
          sum[row][1] = _mm512_dpbf16_ps(sum[row][1], high, x);
        }
      }
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        _mm512_store_ps(sums + row * kSumStride + column, sum[row][0]);
        _mm512_store_ps(sums + row * kSumStride + column + 16, sum[row][1]);
      }
    }
  }
  const __m512i front = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i back = _mm512_add_epi32(front, _mm512_set1_epi32(8));
  for (int row = 0; row < kRows; ++row) {
    const float* x = product.x + (first + row) * product.x_stride;
    float* row_sums = sums + row * kSumStride;
    for (int64_t column = 0; column < whole; column += kColumns) {
      const __m512 low = _mm512_load_ps(row_sums + column);
      const __m512 high = _mm512_load_ps(row_sums + column + 16);
      _mm512_store_ps(row_sums + column, _mm512_permutex2var_ps(low, front, high));
      _mm512_store_ps(row_sums + column + 16, _mm512_permutex2var_ps(low, back, high));
    }
    for (int64_t column = whole; column < product.columns; ++column) row_sums[column] = 0;
    for (int64_t input = 0; input < product.d_input; ++input) {
      const float value = load(store<BFloat16>(x[input]));
      const BFloat16* weight = product.weight + input * product.stride;
      const int64_t rest = input < deep ? whole : 0;
      for (int64_t column = rest; column < product.columns; ++column) row_sums[column] += load(weight[column]) * value;
    }
    give_sums(product, first + row, row_sums);
  }
}

void few_rows_bfloat16_any(const FewRows<BFloat16>& product) {
  if (!product.has_bfloat16_products) return few_rows_plain_any(product);
  static constexpr void (*functions[])(const FewRows<BFloat16>&, int64_t) = {
      few_rows_bfloat16<1>, few_rows_bfloat16<2>, few_rows_bfloat16<3>, few_rows_bfloat16<4>,
      few_rows_bfloat16<5>, few_rows_bfloat16<6>, few_rows_bfloat16<7>, few_rows_bfloat16<8>};
  few_rows_any(product, functions);
}

#else

void few_rows_bfloat16_any(const FewRows<BFloat16>& product) { few_rows_plain_any(product); }

#endif

}  // namespace

constinit const FewRowsTable few_rows_kernels = {
    {few_rows_plain_any<float>, few_rows_transposed_any<float>},
    {few_rows_bfloat16_any, few_rows_transposed_any<BFloat16>},
    {few_rows_plain_any<int8_t>, few_rows_transposed_any<int8_t>},
};
