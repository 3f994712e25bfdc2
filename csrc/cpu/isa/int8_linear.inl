// Products in 8 bits, summed up exactly in 32 bits and scaled as they are stored. The right side is 128 more than it
// was rounded to, as the instructions take one side unsigned: sums begin with what that is too much.

namespace {

// The scale of a lane by the bits of its largest magnitude: NaN if any is not finite, 0 for none that a float can
// scale, else a 127th of it.
BURNLIKE_INLINE float int8_scale(uint32_t bits) {
  if (bits >= 0x7F800000u) return __builtin_nanf("");
  const float scale = ::burnlike::detail::float_of(bits) / 127.0f;
  return scale < 0x1.0p-120f ? 0.0f : scale;
}

// What its values are multiplied by; 0 where the scale is NaN or 0.
BURNLIKE_INLINE float int8_factor(float scale) { return scale > 0 ? 1 / scale : 0.0f; }

BURNLIKE_INLINE uint32_t magnitude_of(float value) { return ::burnlike::detail::bits_of(value) & 0x7FFFFFFFu; }
BURNLIKE_INLINE uint32_t magnitude_of(BFloat16 value) { return (value.bits & 0x7FFFu) << 16; }

// To the nearest integer, ties to even, of magnitudes below 2^22; what is not finite becomes 0.
BURNLIKE_INLINE int32_t int8_rounded(float value) {
  const float sum = value + 0x1.8p+23f;
  return value == value ? static_cast<int32_t>(::burnlike::detail::bits_of(sum)) - 0x4B400000 : 0;
}

BURNLIKE_INLINE uint8_t* int8_word(uint8_t* strips, int64_t groups, bool is_left, int64_t group, int64_t lane) {
  if (!is_left) return strips + (group * kInt8Lanes + lane) * kInt8Group;
  return strips + ((lane / kInt8Rows * groups + group) * kInt8Rows + lane % kInt8Rows) * kInt8Group;
}

#if defined(BURNLIKE_FMA_512)

BURNLIKE_INLINE __m512 int8_floats(const float* values, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, values); }
BURNLIKE_INLINE __m512 int8_floats(const BFloat16* values, __mmask16 mask) {
  const __m256i halves = _mm256_maskz_loadu_epi16(mask, values);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, halves), 16));
}

BURNLIKE_INLINE __mmask16 int8_mask(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : count <= 0 ? 0 : (1 << count) - 1);
}

BURNLIKE_INLINE __m512i int8_magnitudes(__m512 values) {
  return _mm512_maskz_and_epi32(0xFFFF, _mm512_castps_si512(values), _mm512_set1_epi32(0x7FFFFFFF));
}

// As integers; what is not finite becomes 0, for its factor is 0.
BURNLIKE_INLINE __m512i int8_integers(__m512 values, __m512 factors) {
  const __m512 scaled = _mm512_mul_ps(values, factors);
  const __mmask16 is_number = _mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q);
  return _mm512_maskz_cvtps_epi32(is_number, scaled);
}

// Transposes 16 x 16 words in registers, by pairs, fours and then quarters of registers.
BURNLIKE_INLINE void transpose_int8(__m512i* x) {
  __m512i y[16];
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_maskz_unpacklo_epi32(0xFFFF, x[i], x[i + 1]);
    y[i + 1] = _mm512_maskz_unpackhi_epi32(0xFFFF, x[i], x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_maskz_unpacklo_epi64(0xFF, y[i], y[i + 2]);
    x[i + 1] = _mm512_maskz_unpackhi_epi64(0xFF, y[i], y[i + 2]);
    x[i + 2] = _mm512_maskz_unpacklo_epi64(0xFF, y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_maskz_unpackhi_epi64(0xFF, y[i + 1], y[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    y[i] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i], x[i + 4], 0x88);
    y[i + 4] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i], x[i + 4], 0xDD);
    y[i + 8] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i + 8], x[i + 12], 0x88);
    y[i + 12] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i + 8], x[i + 12], 0xDD);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i], y[i + 8], 0x88);
    x[i + 4] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i + 4], y[i + 12], 0x88);
    x[i + 8] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i], y[i + 8], 0xDD);
    x[i + 12] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i + 4], y[i + 12], 0xDD);
  }
}

// The words of one group of all lanes.
BURNLIKE_INLINE void store_int8(uint8_t* strips, int64_t groups, bool is_left, int64_t group, __m512i words) {
  if (!is_left) {
    const __m512i moved = _mm512_xor_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0x80808080u)));
    return _mm512_storeu_si512(strips + group * kInt8Lanes * kInt8Group, moved);
  }
  uint8_t* first = strips + group * kInt8Rows * kInt8Group;
  uint8_t* second = first + groups * kInt8Rows * kInt8Group;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(first), _mm512_maskz_extracti64x4_epi64(0xFF, words, 0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(second), _mm512_maskz_extracti64x4_epi64(0xFF, words, 1));
}

template <class Element>
BURNLIKE_INLINE void pack_along_depth(const Int8Packing<Element>& packing) {
  const int64_t groups = (packing.depth + kInt8Group - 1) / kInt8Group;
  __m512 factors[kInt8Lanes];
  for (int64_t lane = 0; lane < kInt8Lanes; ++lane) {
    __m512i largest = _mm512_setzero_si512();
    const Element* values = packing.values + lane * packing.stride;
    for (int64_t place = 0; lane < packing.lanes && place < packing.depth; place += 16) {
      const __m512 some = int8_floats(values + place, int8_mask(packing.depth - place));
      largest = _mm512_maskz_max_epu32(0xFFFF, largest, int8_magnitudes(some));
    }
    alignas(64) uint32_t each[16];
    _mm512_store_si512(each, largest);
    uint32_t bits = 0;
    for (const uint32_t it : each) bits = it > bits ? it : bits;
    packing.scales[lane] = int8_scale(bits);
    factors[lane] = _mm512_set1_ps(int8_factor(packing.scales[lane]));
  }
  // As packs leave them: quarter q of a register has the words q, 4 + q, 8 + q and 12 + q.
  for (int64_t begin = 0; begin < packing.depth; begin += 64) {
    __m512i words[16];
    for (int64_t lane = 0; lane < kInt8Lanes; ++lane) {
      words[lane] = _mm512_setzero_si512();
      if (lane >= packing.lanes) continue;
      const Element* values = packing.values + lane * packing.stride + begin;
      const int64_t rest = packing.depth - begin;
      __m512i integers[4];
      for (int64_t part = 0; part < 4; ++part) {
        integers[part] = int8_integers(int8_floats(values + 16 * part, int8_mask(rest - 16 * part)), factors[lane]);
      }
      words[lane] = _mm512_packs_epi16(
          _mm512_packs_epi32(integers[0], integers[1]), _mm512_packs_epi32(integers[2], integers[3]));
    }
    transpose_int8(words);
    for (int64_t index = 0; index < 16; ++index) {
      const int64_t group = begin / kInt8Group + index % 4 * 4 + index / 4;
      if (group < groups) store_int8(packing.strips, groups, packing.is_left, group, words[index]);
    }
  }
}

template <class Element>
BURNLIKE_INLINE void pack_across_depth(const Int8Packing<Element>& packing) {
  const int64_t groups = (packing.depth + kInt8Group - 1) / kInt8Group;
  const __mmask16 mask = int8_mask(packing.lanes);
  __m512i most[4] = {};
  for (int64_t place = 0; place < packing.depth; place += 4) {
    for (int64_t next = 0; next < 4 && place + next < packing.depth; ++next) {
      const __m512 some = int8_floats(packing.values + (place + next) * packing.stride, mask);
      most[next] = _mm512_maskz_max_epu32(0xFFFF, most[next], int8_magnitudes(some));
    }
  }
  const __m512i largest = _mm512_maskz_max_epu32(
      0xFFFF, _mm512_maskz_max_epu32(0xFFFF, most[0], most[1]), _mm512_maskz_max_epu32(0xFFFF, most[2], most[3]));
  alignas(64) uint32_t each[16];
  alignas(64) float factors[16];
  _mm512_store_si512(each, largest);
  for (int64_t lane = 0; lane < kInt8Lanes; ++lane) {
    packing.scales[lane] = int8_scale(each[lane]);
    factors[lane] = int8_factor(packing.scales[lane]);
  }
  const __m512 factor = _mm512_load_ps(factors);
  const __m512i byte = _mm512_set1_epi32(0xFF);
  for (int64_t group = 0; group < groups; ++group) {
    __m512i integers[4];
    for (int64_t next = 0; next < 4; ++next) {
      const int64_t place = group * kInt8Group + next;
      const Element* values = packing.values + place * packing.stride;
      integers[next] =
          place < packing.depth ? int8_integers(int8_floats(values, mask), factor) : _mm512_setzero_si512();
    }
    const __m512i low = _mm512_or_si512(
        _mm512_and_si512(integers[0], byte), _mm512_maskz_slli_epi32(0xFFFF, _mm512_and_si512(integers[1], byte), 8));
    const __m512i high = _mm512_or_si512(
        _mm512_maskz_slli_epi32(0xFFFF, _mm512_and_si512(integers[2], byte), 16),
        _mm512_maskz_slli_epi32(0xFFFF, integers[3], 24));
    store_int8(packing.strips, groups, packing.is_left, group, _mm512_or_si512(low, high));
  }
}

#endif

template <class Element>
void pack_int8(const Int8Packing<Element>& packing) {
  const int64_t groups = (packing.depth + kInt8Group - 1) / kInt8Group;
#if defined(BURNLIKE_FMA_512)
  if (packing.is_along_depth) {
    pack_along_depth(packing);
  } else {
    pack_across_depth(packing);
  }
#else
  const int64_t along = packing.is_along_depth ? 1 : packing.stride;
  const int64_t across = packing.is_along_depth ? packing.stride : 1;
  uint32_t largest[kInt8Lanes] = {};
  float factors[kInt8Lanes];
  for (int64_t place = 0; place < packing.depth; ++place) {
    for (int64_t lane = 0; lane < packing.lanes; ++lane) {
      const uint32_t bits = magnitude_of(packing.values[lane * across + place * along]);
      largest[lane] = bits > largest[lane] ? bits : largest[lane];
    }
  }
  for (int64_t lane = 0; lane < kInt8Lanes; ++lane) {
    packing.scales[lane] = int8_scale(largest[lane]);
    factors[lane] = int8_factor(packing.scales[lane]);
  }
  const uint8_t moved = packing.is_left ? 0 : 128;
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t lane = 0; lane < kInt8Lanes; ++lane) {
      uint8_t* word = int8_word(packing.strips, groups, packing.is_left, group, lane);
      for (int64_t next = 0; next < kInt8Group; ++next) {
        const int64_t place = group * kInt8Group + next;
        const bool is_there = lane < packing.lanes && place < packing.depth;
        const float value = is_there ? load(packing.values[lane * across + place * along]) * factors[lane] : 0.0f;
        word[next] = static_cast<uint8_t>(int8_rounded(value) + moved);
      }
    }
  }
#endif
  if (!packing.is_left) return;
  int32_t sums[kInt8Lanes] = {};
  for (int64_t half = 0; half < kInt8Lanes; half += kInt8Rows) {
    const int8_t* strip = reinterpret_cast<const int8_t*>(packing.strips) + half * groups * kInt8Group;
    for (int64_t group = 0; group < groups; ++group, strip += kInt8Rows * kInt8Group) {
      for (int64_t lane = 0; lane < kInt8Rows; ++lane) {
        const int8_t* word = strip + lane * kInt8Group;
        sums[half + lane] += word[0] + word[1] + word[2] + word[3];
      }
    }
  }
  for (int64_t lane = 0; lane < kInt8Lanes; ++lane) packing.offsets[lane] = -128 * sums[lane];
}

template <class Element>
BURNLIKE_INLINE void store_scaled(const Int8Tile<Element>& tile, int64_t row, int64_t column, int32_t sum) {
  float value = static_cast<float>(sum) * tile.column_scales[column] * tile.row_scales[row];
  if (tile.bias != nullptr) value += tile.bias[column];
  tile.product[row * tile.stride + column] = store<Element>(value);
}

template <class Element>
void multiply_int8(const Int8Tile<Element>& tile) {
  for (int64_t begin = 0; begin < tile.columns; begin += kInt8Lanes) {
    int32_t sums[kInt8Rows][kInt8Lanes];
    for (int64_t row = 0; row < kInt8Rows; ++row) {
      for (int64_t lane = 0; lane < kInt8Lanes; ++lane) sums[row][lane] = tile.offsets[row];
    }
    const uint8_t* right = tile.right + begin * tile.groups * kInt8Group;
    const int8_t* left = reinterpret_cast<const int8_t*>(tile.left);
    for (int64_t group = 0; group < tile.groups; ++group) {
      for (int64_t row = 0; row < kInt8Rows; ++row, left += kInt8Group) {
        const int32_t word[] = {left[0], left[1], left[2], left[3]};
        for (int64_t lane = 0; lane < kInt8Lanes; ++lane) {
          const uint8_t* lanes = right + (group * kInt8Lanes + lane) * kInt8Group;
          sums[row][lane] += word[0] * lanes[0] + word[1] * lanes[1] + word[2] * lanes[2] + word[3] * lanes[3];
        }
      }
    }
    const int64_t columns = tile.columns - begin < kInt8Lanes ? tile.columns - begin : kInt8Lanes;
    for (int64_t row = 0; row < tile.rows; ++row) {
      for (int64_t lane = 0; lane < columns; ++lane) store_scaled(tile, row, begin + lane, sums[row][lane]);
    }
  }
}

#if defined(BURNLIKE_VNNI_512)

BURNLIKE_INLINE void store_int8_lanes(float* product, __mmask16 mask, __m512 values) {
  _mm512_mask_storeu_ps(product, mask, values);
}

// To the nearest, ties to even.
BURNLIKE_INLINE void store_int8_lanes(BFloat16* product, __mmask16 mask, __m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i last = _mm512_and_si512(_mm512_maskz_srli_epi32(0xFFFF, bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i halves =
      _mm512_mask_mov_epi32(_mm512_maskz_srli_epi32(0xFFFF, rounded, 16), is_nan, _mm512_set1_epi32(0x7FC0));
  _mm256_mask_storeu_epi16(product, mask, _mm512_maskz_cvtepi32_epi16(0xFFFF, halves));
}

// Not the intrinsic, around which GCC 12 copies its sum.
BURNLIKE_INLINE __m512i add_int8_linears(__m512i sum, __m512i lanes, __m512i words) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(lanes), "v"(words));
  return sum;
}

template <int kStrips>
BURNLIKE_VNNI_512 void multiply_int8_strips(
    const uint8_t* left, const uint8_t* right, int64_t groups, const int32_t* offsets, int32_t* stored) {
  __m512i sums[kInt8Rows][kStrips];
  for (int row = 0; row < kInt8Rows; ++row) {
    for (int strip = 0; strip < kStrips; ++strip) sums[row][strip] = _mm512_set1_epi32(offsets[row]);
  }
  const int64_t next_strip = groups * kInt8Lanes * kInt8Group;
  for (int64_t group = 0; group < groups; ++group) {
    __m512i lanes[kStrips];
    for (int strip = 0; strip < kStrips; ++strip) lanes[strip] = _mm512_loadu_si512(right + strip * next_strip);
    for (int row = 0; row < kInt8Rows; ++row) {
      int32_t word;
      __builtin_memcpy(&word, left + row * kInt8Group, sizeof(word));
      const __m512i words = _mm512_set1_epi32(word);
      for (int strip = 0; strip < kStrips; ++strip) {
        sums[row][strip] = add_int8_linears(sums[row][strip], lanes[strip], words);
      }
    }
    left += kInt8Rows * kInt8Group;
    right += kInt8Lanes * kInt8Group;
  }
  // By way of memory, or GCC 12 keeps them there all the time.
  for (int row = 0; row < kInt8Rows; ++row) {
    for (int strip = 0; strip < kStrips; ++strip)
      _mm512_storeu_si512(stored + row * kInt8Panel + strip * kInt8Lanes, sums[row][strip]);
  }
}

template <class Element>
void store_int8_rows(const Int8Tile<Element>& tile, const int32_t* sums) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    const __m512 row_scale = _mm512_set1_ps(tile.row_scales[row]);
    for (int64_t column = 0; column < tile.columns; column += kInt8Lanes) {
      const __mmask16 mask = int8_mask(tile.columns - column);
      const __m512i some = _mm512_loadu_si512(sums + row * kInt8Panel + column);
      __m512 values = _mm512_mul_ps(
          _mm512_maskz_cvtepi32_ps(0xFFFF, some), _mm512_maskz_loadu_ps(mask, tile.column_scales + column));
      values = _mm512_mul_ps(values, row_scale);
      if (tile.bias != nullptr) values = _mm512_add_ps(values, _mm512_maskz_loadu_ps(mask, tile.bias + column));
      store_int8_lanes(tile.product + row * tile.stride + column, mask, values);
    }
  }
}

template <class Element>
void multiply_int8_by_vnni(const Int8Tile<Element>& tile) {
  // Rows of results lie apart, so that the processor does not see what is written next.
  constexpr int64_t kCacheLine = 64 / sizeof(Element);
  for (int64_t row = 0; row < tile.rows; ++row) {
    Element* target = tile.product + row * tile.stride;
    for (int64_t column = 0; column < tile.columns; column += kCacheLine) __builtin_prefetch(target + column, 1);
    __builtin_prefetch(target + tile.columns - 1, 1);
  }
  alignas(64) int32_t sums[kInt8Rows * kInt8Panel];
  const auto multiply = tile.columns > 2 * kInt8Lanes ? multiply_int8_strips<3>
                        : tile.columns > kInt8Lanes   ? multiply_int8_strips<2>
                                                      : multiply_int8_strips<1>;
  multiply(tile.left, tile.right, tile.groups, tile.offsets, sums);
  store_int8_rows(tile, sums);
}

#elif defined(BURNLIKE_VNNI_256)

template <class Element>
BURNLIKE_VNNI_256 void multiply_int8_by_vnni(const Int8Tile<Element>& tile) {
  constexpr int kRows = kInt8Rows / 2;  // with two registers of columns: eight sums, as 16 registers have place for
  for (int64_t begin = 0; begin < tile.columns; begin += kInt8Lanes) {
    const int64_t columns = tile.columns - begin < kInt8Lanes ? tile.columns - begin : kInt8Lanes;
    for (int half = 0; half < kInt8Rows; half += kRows) {
      __m256i sums[kRows][2];
      for (int row = 0; row < kRows; ++row) {
        sums[row][0] = sums[row][1] = _mm256_set1_epi32(tile.offsets[half + row]);
      }
      const uint8_t* left = tile.left + half * kInt8Group;
      const uint8_t* right = tile.right + begin * tile.groups * kInt8Group;
      for (int64_t group = 0; group < tile.groups; ++group) {
        const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right));
        const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right) + 1);
        for (int row = 0; row < kRows; ++row) {
          int32_t word;
          __builtin_memcpy(&word, left + row * kInt8Group, sizeof(word));
          sums[row][0] = _mm256_dpbusd_avx_epi32(sums[row][0], first, _mm256_set1_epi32(word));
          sums[row][1] = _mm256_dpbusd_avx_epi32(sums[row][1], second, _mm256_set1_epi32(word));
        }
        left += kInt8Rows * kInt8Group;
        right += kInt8Lanes * kInt8Group;
      }
      for (int row = 0; row < kRows && half + row < tile.rows; ++row) {
        int32_t each[kInt8Lanes];
        __builtin_memcpy(each, sums[row], sizeof(each));
        for (int64_t lane = 0; lane < columns; ++lane) store_scaled(tile, half + row, begin + lane, each[lane]);
      }
    }
  }
}

#else

template <class Element>
constexpr void (*multiply_int8_by_vnni)(const Int8Tile<Element>&) = multiply_int8<Element>;

#endif

template <class Element>
constexpr Int8Kernels<Element> int8_functions = {
    pack_int8<Element>, multiply_int8<Element>, multiply_int8_by_vnni<Element>};

}  // namespace

constinit const PerFloatOrBFloat16<Int8Kernels> int8_linear_kernels = {int8_functions<float>, int8_functions<BFloat16>};
