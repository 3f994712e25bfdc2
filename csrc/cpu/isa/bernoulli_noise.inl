// Random noise: each value takes two numbers of 32 bits, of which 53 bits are compared, as torch's Bernoulli does.

namespace {

BURNLIKE_INLINE uint32_t twisted(uint32_t high, uint32_t low, uint32_t far) {
  const uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return far ^ (mixed >> 1) ^ ((low & 1u) ? 0x9908b0dfu : 0u);
}

// The next 624 numbers in the place of the last ones.
__attribute__((noinline)) void twist(uint32_t* values) {
  constexpr int64_t kSize = Twister::kSize;
  constexpr int64_t kShift = 397;
  constexpr int64_t kRest = kSize - kShift;
  for (int64_t place = 0; place < kRest; ++place) {
    values[place] = twisted(values[place], values[place + 1], values[place + kShift]);
  }
  values[kSize] = values[0];
#pragma GCC ivdep  // what is read was written 227 places ago
  for (int64_t place = kRest; place < kSize; ++place) {
    values[place] = twisted(values[place], values[place + 1], values[place - kRest]);
  }
}

__attribute__((noinline)) void temper(
    const uint32_t* __restrict__ values, uint32_t* __restrict__ numbers, int64_t count) {
  for (int64_t place = 0; place < count; ++place) {
    uint32_t number = values[place];
    number ^= number >> 11;
    number ^= (number << 7) & 0x9d2c5680u;
    number ^= (number << 15) & 0xefc60000u;
    numbers[place] = number ^ (number >> 18);
  }
}

inline void draw(Twister& twister, uint32_t* numbers, int64_t count) {
  while (count > 0) {
    if (twister.left <= 1) {
      twist(twister.values);
      twister.left = Twister::kSize + 1;
      twister.next = 0;
    }
    const int64_t there = twister.left - 1;
    const int64_t taken = there < count ? there : count;
    temper(twister.values + twister.next, numbers, taken);
    twister.next += taken;
    twister.left -= taken;
    numbers += taken;
    count -= taken;
  }
}

// In lanes of 32 bits, and without a branch, which would be taken at random.
template <class Bits>
__attribute__((noinline)) void compare_numbers(
    const uint32_t* __restrict__ numbers, Bits* __restrict__ noise, int64_t count, uint64_t threshold, Bits scale) {
  const uint32_t high_threshold = static_cast<uint32_t>(threshold >> 32);
  const uint32_t low_threshold = static_cast<uint32_t>(threshold);
  for (int64_t place = 0; place < count; ++place) {
    const uint32_t high = numbers[2 * place] & 0x1fffffu;
    const uint32_t low = numbers[2 * place + 1];
    const uint32_t is_less =
        uint32_t(high < high_threshold) | (uint32_t(high == high_threshold) & uint32_t(low < low_threshold));
    noise[place] = static_cast<Bits>(scale & static_cast<Bits>(-static_cast<Bits>(is_less)));
  }
}

template <int64_t size>
struct BitsOf {
  typedef uint16_t __attribute__((may_alias)) Type;
};
template <>
struct BitsOf<4> {
  typedef uint32_t __attribute__((may_alias)) Type;
};
template <>
struct BitsOf<8> {
  typedef uint64_t __attribute__((may_alias)) Type;
};

template <class Element>
void fill_noise(Twister& twister, Element* noise, int64_t count, uint64_t threshold, Element scale) {
  using Bits = typename BitsOf<sizeof(Element)>::Type;
  const Bits bits = *reinterpret_cast<const Bits*>(&scale);
  constexpr int64_t kChunk = 1024;
  uint32_t numbers[2 * kChunk];
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t values = count - begin < kChunk ? count - begin : kChunk;
    draw(twister, numbers, 2 * values);
    compare_numbers<Bits>(numbers, reinterpret_cast<Bits*>(noise) + begin, values, threshold, bits);
  }
}

template <class Element>
constexpr BernoulliNoiseKernels<Element> bernoulli_noise_functions = {fill_noise<Element>};

}  // namespace

constinit const PerElement<BernoulliNoiseKernels> bernoulli_noise_kernels =
    BURNLIKE_PER_ELEMENT(bernoulli_noise_functions);
