// CRC-32: with carry-less products where the instruction set has them, else byte by byte: there zlib is faster, and is
// what is called.

namespace {

#if defined(BURNLIKE_CARRYLESS)

// The factors that move values ahead by a number of bytes.
struct Crc32Fold {
  uint64_t low, high;
  explicit consteval Crc32Fold(int bytes)
      : low(crc32_fold_factor(8 * bytes + 32)), high(crc32_fold_factor(8 * bytes - 32)) {}
};

static_assert(Crc32Fold(64).low == 0x154442BD4 && Crc32Fold(64).high == 0x1C6E41596);  // as Gopal et al. have them
static_assert(Crc32Fold(16).low == 0x1751997D0 && Crc32Fold(16).high == 0x0CCAA009E);

// 16 bytes moved ahead and added to those that lie there.
BURNLIKE_INLINE __m128i crc32_folded(__m128i value, __m128i factors, __m128i there) {
  const __m128i low = _mm_clmulepi64_si128(value, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

BURNLIKE_INLINE __m128i crc32_load(const uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

#if defined(BURNLIKE_CARRYLESS_512)

BURNLIKE_CARRYLESS_512 inline __m512i crc32_folded(__m512i value, __m512i factors, __m512i there) {
  const __m512i low = _mm512_clmulepi64_epi128(value, factors, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(value, factors, 0x11);
  return _mm512_ternarylogic_epi64(low, high, there, 0x96);  // a ^ b ^ c
}

BURNLIKE_CARRYLESS_512 inline __m512i crc32_factors(Crc32Fold fold) {
  return _mm512_set4_epi64(fold.high, fold.low, fold.high, fold.low);
}

// Writes 64 bytes which, from a state of 0 on, have the remainder of all whole 256 bytes. There is at least one of
// them.
BURNLIKE_CARRYLESS_512 void crc32_fold_512(uint32_t state, const uint8_t* bytes, int64_t count, uint8_t* folded) {
  const __m512i by_256 = crc32_factors(Crc32Fold(256));
  const __m512i by_64 = crc32_factors(Crc32Fold(64));
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i lane_0 = _mm512_xor_si512(_mm512_loadu_si512(bytes), start);
  __m512i lane_1 = _mm512_loadu_si512(bytes + 64);
  __m512i lane_2 = _mm512_loadu_si512(bytes + 128);
  __m512i lane_3 = _mm512_loadu_si512(bytes + 192);
  for (bytes += 256, count -= 256; count >= 256; bytes += 256, count -= 256) {
    lane_0 = crc32_folded(lane_0, by_256, _mm512_loadu_si512(bytes));
    lane_1 = crc32_folded(lane_1, by_256, _mm512_loadu_si512(bytes + 64));
    lane_2 = crc32_folded(lane_2, by_256, _mm512_loadu_si512(bytes + 128));
    lane_3 = crc32_folded(lane_3, by_256, _mm512_loadu_si512(bytes + 192));
  }
  lane_1 = crc32_folded(lane_0, by_64, lane_1);
  lane_2 = crc32_folded(lane_1, by_64, lane_2);
  _mm512_storeu_si512(folded, crc32_folded(lane_2, by_64, lane_3));
}

#endif

// Four lanes of 16 bytes are folded over the 64 bytes ahead of them, and at last into one, which has the remainder of
// all (Gopal et al., Intel 2009, "Fast CRC computation for generic polynomials using PCLMULQDQ instruction").
uint32_t crc32_update(uint32_t state, const uint8_t* bytes, int64_t count) {
  if (count < 64) return crc32_byte_by_byte(state, bytes, count);
  constexpr Crc32Fold far{64}, near{16};
  const __m128i by_64 = _mm_set_epi64x(far.high, far.low);
  const __m128i by_16 = _mm_set_epi64x(near.high, near.low);
  const uint8_t* first = bytes;
  int64_t taken = 64;
#if defined(BURNLIKE_CARRYLESS_512)
  uint8_t folded[64];
  if (count >= 256 && __builtin_cpu_supports("vpclmulqdq")) {
    crc32_fold_512(state, bytes, count, folded);
    first = folded;
    taken = count / 256 * 256;
    state = 0;
  }
#endif
  __m128i lane_0 = _mm_xor_si128(crc32_load(first), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i lane_1 = crc32_load(first + 16);
  __m128i lane_2 = crc32_load(first + 32);
  __m128i lane_3 = crc32_load(first + 48);
  for (bytes += taken, count -= taken; count >= 64; bytes += 64, count -= 64) {
    lane_0 = crc32_folded(lane_0, by_64, crc32_load(bytes));
    lane_1 = crc32_folded(lane_1, by_64, crc32_load(bytes + 16));
    lane_2 = crc32_folded(lane_2, by_64, crc32_load(bytes + 32));
    lane_3 = crc32_folded(lane_3, by_64, crc32_load(bytes + 48));
  }
  lane_1 = crc32_folded(lane_0, by_16, lane_1);
  lane_2 = crc32_folded(lane_1, by_16, lane_2);
  lane_3 = crc32_folded(lane_2, by_16, lane_3);
  for (; count >= 16; bytes += 16, count -= 16) lane_3 = crc32_folded(lane_3, by_16, crc32_load(bytes));

  uint8_t last[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(last), lane_3);
  return crc32_byte_by_byte(crc32_byte_by_byte(0, last, 16), bytes, count);
}

#else

uint32_t crc32_update(uint32_t state, const uint8_t* bytes, int64_t count) {
  return crc32_byte_by_byte(state, bytes, count);
}

#endif

}  // namespace

constinit const Crc32 crc32_kernels = crc32_update;
