// Vectors of the instruction set's size, loaded from any type of values.

namespace {

#if defined(BURNLIKE_FMA_512)
constexpr int kVector = 16;
#elif defined(BURNLIKE_FMA_256)
constexpr int kVector = 8;
#else
constexpr int kVector = 4;
#endif

typedef float FloatVector __attribute__((vector_size(4 * kVector)));
typedef double DoubleVector __attribute__((vector_size(4 * kVector)));
typedef int32_t IntVector __attribute__((vector_size(4 * kVector)));
typedef uint32_t BitsVector __attribute__((vector_size(4 * kVector)));
typedef uint16_t HalfVector __attribute__((vector_size(2 * kVector)));
typedef int8_t ByteVector __attribute__((vector_size(kVector)));

// a * b + c, rounded once where the instruction set does that.
BURNLIKE_INLINE FloatVector multiply_add(FloatVector a, FloatVector b, FloatVector c) {
#if defined(BURNLIKE_FMA_512)
  return FloatVector(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#elif defined(BURNLIKE_FMA_256)
  return FloatVector(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
  return a * b + c;
#endif
}

BURNLIKE_INLINE FloatVector all_of(float value) { return value - FloatVector{}; }

BURNLIKE_INLINE FloatVector load_vector(const float* values) {
  FloatVector vector;
  __builtin_memcpy(&vector, values, sizeof(vector));
  return vector;
}

// 16-bit numbers as those of 32 bits; of a conversion of vectors GCC 12 makes two halves.
BURNLIKE_INLINE BitsVector load_halves(const void* values) {
#if defined(BURNLIKE_FMA_512)
  return BitsVector(_mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(static_cast<const __m256i*>(values))));
#elif defined(BURNLIKE_FMA_256)
  return BitsVector(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(values))));
#else
  HalfVector halves;
  __builtin_memcpy(&halves, values, sizeof(halves));
  return __builtin_convertvector(halves, BitsVector);
#endif
}

BURNLIKE_INLINE FloatVector load_vector(const BFloat16* values) { return FloatVector(load_halves(values) << 16); }

// As `load`.
BURNLIKE_INLINE FloatVector load_vector(const Float16* values) {
  const BitsVector word = load_halves(values) << 16;
  const BitsVector twice = word + word;
  const BitsVector normal = BitsVector(FloatVector((twice >> 4) + (0xE0u << 23)) * 0x1.0p-112f);
  const BitsVector subnormal = BitsVector(FloatVector((twice >> 17) | (126u << 23)) - 0.5f);
  return FloatVector((word & 0x80000000u) | (twice < (1u << 27) ? subnormal : normal));
}

BURNLIKE_INLINE DoubleVector load_vector(const double* values) {
  DoubleVector vector;
  __builtin_memcpy(&vector, values, sizeof(vector));
  return vector;
}

// Not a conversion of vectors, of which GCC 12 makes one of each number by itself.
BURNLIKE_INLINE FloatVector load_vector(const int8_t* values) {
#if defined(BURNLIKE_FMA_512)
  return __builtin_convertvector(
      IntVector(_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(values)))),
      FloatVector);
#elif defined(BURNLIKE_FMA_256)
  return FloatVector(
      _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(values)))));
#elif defined(__x86_64__)
  int32_t bytes;
  __builtin_memcpy(&bytes, values, sizeof(bytes));
  const __m128i none = _mm_setzero_si128();
  const __m128i halves = _mm_unpacklo_epi8(none, _mm_cvtsi32_si128(bytes));
  return FloatVector(_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(none, halves), 24)));
#else
  ByteVector bytes;
  __builtin_memcpy(&bytes, values, sizeof(bytes));
  return __builtin_convertvector(__builtin_convertvector(bytes, IntVector), FloatVector);
#endif
}

BURNLIKE_INLINE void store_vector(float* values, FloatVector vector) {
  __builtin_memcpy(values, &vector, sizeof(vector));
}

BURNLIKE_INLINE void store_rounded(float* target, FloatVector values) { store_vector(target, values); }

// As `store`, whose loop over a vector's numbers GCC 12 does not make one of vectors.
BURNLIKE_INLINE void store_rounded(BFloat16* target, FloatVector values) {
  const BitsVector bits = BitsVector(values);
  const BitsVector rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const HalfVector halves = __builtin_convertvector(values == values ? rounded : BitsVector{} + 0x7FC0u, HalfVector);
  __builtin_memcpy(target, &halves, sizeof(halves));
}

// Not `load`, which would hide the functions of that name outside.
BURNLIKE_INLINE float float_of(float value) { return value; }
BURNLIKE_INLINE float float_of(BFloat16 value) { return load(value); }
BURNLIKE_INLINE float float_of(int8_t value) { return value; }

// Products of kRows rows of x, whose values are `x_step` apart, with kVectors vectors of columns. All sums stay in
// registers. With `adds` they are added to those before, of another part of the rows: several sums lose fewer digits
// than one long one.
template <int kRows, int kVectors, class Element>
BURNLIKE_INLINE void vector_sums(
    const Element* x, int64_t x_row, int64_t x_step, const float* columns, int64_t columns_row, float* sums,
    int64_t sums_row, int64_t depth, bool adds) {
  FloatVector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int part = 0; part < kVectors; ++part) sum[row][part] = FloatVector{};
  }
  for (int64_t index = 0; index < depth; ++index) {
    FloatVector column[kVectors];
#pragma GCC unroll 4
    for (int part = 0; part < kVectors; ++part)
      column[part] = load_vector(columns + index * columns_row + part * kVector);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const FloatVector value = all_of(load(x[row * x_row + index * x_step]));
#pragma GCC unroll 4
      for (int part = 0; part < kVectors; ++part) sum[row][part] = multiply_add(column[part], value, sum[row][part]);
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int part = 0; part < kVectors; ++part) {
      float* target = sums + row * sums_row + part * kVector;
      store_vector(target, adds ? load_vector(target) + sum[row][part] : sum[row][part]);
    }
  }
}

typedef float FourFloats __attribute__((vector_size(16)));
typedef float EightFloats __attribute__((vector_size(32)));

BURNLIKE_INLINE float sum_of(FloatVector vector) {
#if defined(BURNLIKE_FMA_512)
  const EightFloats half = __builtin_shufflevector(vector, vector, 0, 1, 2, 3, 4, 5, 6, 7) +
                           __builtin_shufflevector(vector, vector, 8, 9, 10, 11, 12, 13, 14, 15);
  const FourFloats four =
      __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif defined(BURNLIKE_FMA_256)
  const FourFloats four =
      __builtin_shufflevector(vector, vector, 0, 1, 2, 3) + __builtin_shufflevector(vector, vector, 4, 5, 6, 7);
#else
  const FourFloats four = vector;
#endif
  return (four[0] + four[2]) + (four[1] + four[3]);
}

BURNLIKE_INLINE double sum_of(DoubleVector vector) {
  double values[kVector / 2];
  __builtin_memcpy(values, &vector, sizeof(values));
#pragma GCC unroll 4
  for (int half = kVector / 4; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int lane = 0; lane < half; ++lane) values[lane] += values[lane + half];
  }
  return values[0];
}

}  // namespace
