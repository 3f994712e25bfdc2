// Attention in bfloat16 by blocks of scores that never leave the cache: the forward pass with sums of weights that are
// corrected when a larger score comes (Milakov & Gimelshein 2018), the backward pass after Dao 2023,
// "FlashAttention-2", algorithm 2. Scores are products of keys with queries, transposed: rows are keys, lanes queries.

namespace {

inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
inline int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

// exp(x) for x <= 0 or little above, zero below -87, NaN of NaN: 2^n exp(x - n ln 2) as in functions.h, by a series
// whose rest is below 2^-23. Results below 2^-126, as of hidden keys, take Intel's processors a hundred cycles each.
inline Lanes exponentials(Lanes x) {
  const Lanes least = _mm512_set1_ps(-87.0f);
  const __mmask16 is_zero = _mm512_cmp_ps_mask(x, least, _CMP_LT_OQ);
  x = _mm512_max_ps(least, x);
  const Lanes n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p0f)), 8);
  Lanes r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
  Lanes sum = _mm512_set1_ps(1.0f / 720.0f);
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 120.0f));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 24.0f));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 6.0f));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(0.5f));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
  return _mm512_mask_mov_ps(_mm512_scalef_ps(sum, n), is_zero, _mm512_setzero_ps());
}

// tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|) and the sign of x: its absolute error is 1e-7.
inline Lanes tangents(Lanes x) {
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
  const Lanes one = _mm512_set1_ps(1.0f);
  const Lanes e = exponentials(_mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(-2.0f)));
  const Lanes size = _mm512_div_ps(_mm512_sub_ps(one, e), _mm512_add_ps(one, e));
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(size), sign));
}

// What scores are made with; the first two are the usual ones, of which nothing is asked for each score.
enum class Kind { kPlain, kBias, kAny };

inline Kind kind_of(const Bf16Scores& options) {
  if (options.noise != nullptr || options.soft_cap != 0.0f) return Kind::kAny;
  return options.bias == nullptr ? Kind::kPlain : Kind::kBias;
}

// A vector of scores from products; `slope` becomes its derivative by the scaled product.
template <Kind kKind>
inline Lanes score_of(const Bf16Scores& options, Lanes product, int64_t place, Lanes& slope) {
  Lanes score = _mm512_mul_ps(product, _mm512_set1_ps(options.scale));
  if (kKind == Kind::kAny && options.soft_cap != 0.0f) {
    const Lanes cap = _mm512_set1_ps(options.soft_cap);
    const Lanes tangent = tangents(_mm512_div_ps(score, cap));
    slope = _mm512_fnmadd_ps(tangent, tangent, _mm512_set1_ps(1.0f));
    score = _mm512_mul_ps(tangent, cap);
  }
  const bool has_bias = kKind == Kind::kBias || (kKind == Kind::kAny && options.bias != nullptr);
  return has_bias ? _mm512_add_ps(score, _mm512_loadu_ps(options.bias + place)) : score;
}

// The first column that sees a row.
inline int64_t first_column(const Bf16Seen& seen, int64_t row) {
  if (row >= seen.rows) return seen.columns;
  return least(most(seen.first + row * seen.step, 0), seen.columns);
}

// How many rows the columns up to one see, as pairs.
inline int64_t seen_pairs(const Bf16Seen& seen, int64_t column) {
  column = least(column, seen.columns - 1);
  if (seen.step == 0) return (seen.rows + 1) / 2;
  if (column < seen.first) return 0;
  return (least((column - seen.first) / seen.step + 1, seen.rows) + 1) / 2;
}

inline uint32_t lowest_bits(int64_t count) { return count >= kBf16Lanes ? 0xFFFF : (1u << most(count, 0)) - 1; }

// The lanes of columns from `begin` on that see a row.
inline __mmask16 seen_lanes(const Bf16Seen& seen, int64_t row, int64_t begin) {
  const uint32_t columns = lowest_bits(seen.columns - begin);
  return static_cast<__mmask16>(columns & ~lowest_bits(first_column(seen, row) - begin));
}

// Whether the columns of the lanes see all of the rows up to `rows`.
inline bool see_all(const Bf16Seen& seen, int64_t rows, int64_t begin) {
  return seen_lanes(seen, rows - 1, begin) == 0xFFFF;
}

// The scores of `rows` keys from `row` on, of the vectors of columns that see any of them.
inline void multiply_keys(
    const Bf16Seen& seen, const Word* keys, const Word* queries, int64_t width, int64_t row, float* scores) {
  const int64_t begin = first_column(seen, row) / kBf16Lanes;
  const int64_t vectors = (seen.columns + kBf16Lanes - 1) / kBf16Lanes;
  if (begin == vectors) return;
  const Words left = {keys + row * width / 2, width / 2, 1};
  const int64_t column = begin * kBf16Lanes;
  multiply<false>(
      left, queries + column, kBf16Columns, width / 2, scores + column, kBf16Columns, kBf16Lanes, vectors - begin);
}

// Scales the scores of a vector of columns in place, and returns the largest. Hidden ones become -inf.
template <Kind kKind, bool kMasked>
Lanes scale_scores(const Bf16ForwardBlock& block, int64_t begin, int64_t rows) {
  const Lanes hidden = _mm512_set1_ps(-__builtin_inff());
  Lanes largest[2] = {hidden, hidden};
  for (int64_t row = 0; row < rows; row += 2) {
    for (int part = 0; part < 2; ++part) {
      const int64_t place = (row + part) * kBf16Columns + begin;
      Lanes slope;
      Lanes score = score_of<kKind>(block.options, _mm512_loadu_ps(block.scores + place), place, slope);
      if constexpr (kMasked) score = _mm512_mask_mov_ps(hidden, seen_lanes(block.seen, row + part, begin), score);
      _mm512_storeu_ps(block.scores + place, score);
      largest[part] = _mm512_max_ps(score, largest[part]);  // NaN is passed over: it comes back with the exponentials
    }
  }
  return _mm512_max_ps(largest[0], largest[1]);
}

// The weights of a vector of columns; returns by what earlier sums are multiplied.
template <Kind kKind>
Lanes softmax(const Bf16ForwardBlock& block, int64_t begin, int64_t pairs) {
  const bool masked = !see_all(block.seen, 2 * pairs, begin);
  const auto scaled = masked ? scale_scores<kKind, true> : scale_scores<kKind, false>;
  const Lanes before = _mm512_loadu_ps(block.largest + begin);
  const Lanes largest = _mm512_max_ps(scaled(block, begin, 2 * pairs), before);
  const __mmask16 blind = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(-__builtin_inff()), _CMP_EQ_OQ);
  const Lanes shift = _mm512_mask_mov_ps(largest, blind, _mm512_setzero_ps());
  const Lanes factor = exponentials(_mm512_sub_ps(before, shift));
  Lanes sums[2] = {_mm512_mul_ps(_mm512_loadu_ps(block.sums + begin), factor), _mm512_setzero_ps()};
  for (int64_t pair = 0; pair < pairs; ++pair) {
    Lanes weights[2];
    for (int part = 0; part < 2; ++part) {
      const int64_t place = (2 * pair + part) * kBf16Columns + begin;
      weights[part] = exponentials(_mm512_sub_ps(_mm512_loadu_ps(block.scores + place), shift));
      sums[part] = _mm512_add_ps(sums[part], weights[part]);
      if (kKind == Kind::kAny && block.options.noise != nullptr) {
        // Rows beyond the last have no weight, and no noise in memory.
        const __mmask16 seen = _mm512_cmp_ps_mask(weights[part], _mm512_setzero_ps(), _CMP_NEQ_UQ);
        const Lanes noise = _mm512_maskz_loadu_ps(seen, block.options.noise + place);
        weights[part] = _mm512_maskz_mul_ps(seen, weights[part], noise);
      }
    }
    _mm512_storeu_si512(block.weights + pair * kBf16Columns + begin, paired(rounded(weights[0], weights[1])));
  }
  _mm512_storeu_ps(block.largest + begin, largest);
  _mm512_storeu_ps(block.sums + begin, _mm512_add_ps(sums[0], sums[1]));
  return factor;
}

template <Kind kKind>
void forward_block(const Bf16ForwardBlock& block) {
  const Bf16Seen& seen = block.seen;
  for (int64_t row = 0; row < seen.rows; row += kBf16Lanes) {
    multiply_keys(seen, block.keys, block.queries, block.width, row, block.scores + row * kBf16Columns);
  }
  for (int64_t begin = 0; begin < seen.columns; begin += kBf16Lanes) {
    const int64_t pairs = seen_pairs(seen, begin + kBf16Lanes - 1);
    float* output = block.output + begin * block.width;
    const Words weights = {block.weights + begin, 1, kBf16Columns};
    const int64_t vectors = block.width / kBf16Lanes;
    if (block.is_first) {
      softmax<kKind>(block, begin, pairs);
      multiply<false>(weights, block.values, block.width, pairs, output, block.width, kBf16Lanes, vectors);
      continue;
    }
    if (pairs == 0) continue;
    const Lanes factor = softmax<kKind>(block, begin, pairs);
    if (_mm512_cmp_ps_mask(factor, _mm512_set1_ps(1.0f), _CMP_NEQ_UQ) != 0) {
      float factors[kBf16Lanes];
      _mm512_storeu_ps(factors, factor);
      for (int64_t row = 0; row < kBf16Lanes; ++row) {
        float* target = output + row * block.width;
        for (int64_t column = 0; column < block.width; ++column) target[column] *= factors[row];
      }
    }
    multiply<true>(weights, block.values, block.width, pairs, output, block.width, kBf16Lanes, vectors);
  }
}

void attention_bf16_forward(const Bf16ForwardBlock& block) {
  constexpr decltype(&forward_block<Kind::kPlain>) functions[] = {
      forward_block<Kind::kPlain>, forward_block<Kind::kBias>, forward_block<Kind::kAny>};
  functions[static_cast<int>(kind_of(block.options))](block);
}

void attention_bf16_finish(float* largest, const float* sums, float* factors, float* logarithms) {
  for (int64_t column = 0; column < kBf16Columns; ++column) {
    const bool is_blind = sums[column] == 0.0f;
    factors[column] = is_blind ? 0.0f : 1.0f / sums[column];
    const float sum = static_cast<float>(logarithm(static_cast<double>(sums[column])));
    largest[column] = is_blind ? 0.0f : largest[column];
    logarithms[column] = is_blind ? __builtin_inff() : sum;
  }
}

// Of sixteen keys from `row` on and a vector of columns: scores and the gradients of weights become weights and the
// gradients of scores, both as rows, the latter as words too.
template <Kind kKind, bool kMasked>
void differentiate(const Bf16BackwardBlock& block, int64_t row, int64_t begin) {
  constexpr int64_t values = kBf16Lanes * kBf16Columns;
  const Lanes largest = _mm512_loadu_ps(block.largest + begin);
  const Lanes logarithms = _mm512_loadu_ps(block.logarithms + begin);
  const Lanes deltas = _mm512_loadu_ps(block.deltas + begin);
  for (int64_t index = 0; index < kBf16Lanes; index += 2) {
    Lanes weights[2], grads[2];
    for (int part = 0; part < 2; ++part) {
      const int64_t place = (index + part) * kBf16Columns + begin;
      const int64_t in_block = row * kBf16Columns + place;
      Lanes slope;
      const Lanes score = score_of<kKind>(block.options, _mm512_loadu_ps(block.scores + place), in_block, slope);
      weights[part] = exponentials(_mm512_sub_ps(_mm512_sub_ps(score, largest), logarithms));
      Lanes grad = _mm512_loadu_ps(block.scores + values + place);
      Lanes dropped = weights[part];
      if (kKind == Kind::kAny && block.options.noise != nullptr) {
        const Lanes noise = _mm512_loadu_ps(block.options.noise + in_block);
        grad = _mm512_mul_ps(grad, noise);
        dropped = _mm512_mul_ps(dropped, noise);
      }
      grads[part] = _mm512_mul_ps(weights[part], _mm512_sub_ps(grad, deltas));
      if (kKind == Kind::kAny && block.options.soft_cap != 0.0f) grads[part] = _mm512_mul_ps(grads[part], slope);
      weights[part] = dropped;
      if constexpr (kMasked) {
        const __mmask16 mask = seen_lanes(block.seen, row + index + part, begin);
        weights[part] = _mm512_maskz_mov_ps(mask, weights[part]);
        grads[part] = _mm512_maskz_mov_ps(mask, grads[part]);
      }
    }
    const __m512i weight_rows = rounded(weights[0], weights[1]);
    const __m512i grad_rows = rounded(grads[0], grads[1]);
    BFloat16* target = block.weights + index * kBf16Columns + begin;
    _mm256_storeu_si256((__m256i*)target, _mm512_castsi512_si256(weight_rows));
    _mm256_storeu_si256((__m256i*)(target + kBf16Columns), _mm512_extracti64x4_epi64(weight_rows, 1));
    target += values;
    _mm256_storeu_si256((__m256i*)target, _mm512_castsi512_si256(grad_rows));
    _mm256_storeu_si256((__m256i*)(target + kBf16Columns), _mm512_extracti64x4_epi64(grad_rows, 1));
    _mm512_storeu_si512(block.grad_score_pairs + (row + index) / 2 * kBf16Columns + begin, paired(grad_rows));
  }
}

template <Kind kKind>
void backward_block(const Bf16BackwardBlock& block) {
  constexpr int64_t values = kBf16Lanes * kBf16Columns;
  const Bf16Seen& seen = block.seen;
  const int64_t width = block.width;
  const int64_t vectors = width / kBf16Lanes;
  const int64_t pairs = (seen.columns + kBf16Lanes - 1) / kBf16Lanes * kBf16Lanes / 2;
  for (int64_t row = 0; row < seen.rows; row += kBf16Lanes) {
    multiply_keys(seen, block.keys, block.queries, width, row, block.scores);
    multiply_keys(seen, block.values, block.grads, width, row, block.scores + values);
    const int64_t first = first_column(seen, row) / kBf16Lanes * kBf16Lanes;
    for (int64_t begin = first; begin < seen.columns; begin += kBf16Lanes) {
      const bool masked = !see_all(seen, row + kBf16Lanes, begin);
      masked ? differentiate<kKind, true>(block, row, begin) : differentiate<kKind, false>(block, row, begin);
    }
    const Word* weights = words(block.weights) + first / 2;
    const Words weight_words = {weights, kBf16Columns / 2, 1};
    const Words grad_words = {weights + values / 2, kBf16Columns / 2, 1};
    const int64_t steps = pairs - first / 2;
    multiply<true>(
        weight_words, block.grad_pairs + first / 2 * width, width, steps, block.grad_value + row * width, width,
        kBf16Lanes, vectors);
    multiply<true>(
        grad_words, block.query_pairs + first / 2 * width, width, steps, block.grad_key + row * width, width,
        kBf16Lanes, vectors);
  }
  for (int64_t begin = 0; begin < seen.columns; begin += kBf16Lanes) {
    multiply<true>(
        Words{block.grad_score_pairs + begin, 1, kBf16Columns}, block.key_pairs, width,
        seen_pairs(seen, begin + kBf16Lanes - 1), block.grad_query + begin * width, width, kBf16Lanes, vectors);
  }
}

void attention_bf16_backward(const Bf16BackwardBlock& block) {
  constexpr decltype(&backward_block<Kind::kPlain>) functions[] = {
      backward_block<Kind::kPlain>, backward_block<Kind::kBias>, backward_block<Kind::kAny>};
  functions[static_cast<int>(kind_of(block.options))](block);
}

}  // namespace

constinit const Bf16AttentionKernels attention_bf16_kernels = {
    .forward = attention_bf16_forward,
    .backward = attention_bf16_backward,
    .to_lanes = to_lanes,
    .to_pairs = to_pairs,
    .transpose_floats = transpose<float>,
    .transpose_bf16 = transpose<BFloat16>,
    .dot = dot,
    .finish = attention_bf16_finish,
    .round = round_values,
};
