// From memory to the type that is computed in, and back with rounding.

namespace {

template <class Element, class Accumulate>
void load_elements(const void* source, const float*, Accumulate* __restrict__ values, int64_t count) {
  const Element* __restrict__ elements = static_cast<const Element*>(source);
  for (int64_t index = 0; index < count; ++index) values[index] = static_cast<Accumulate>(load(elements[index]));
}

template <class Code, class Accumulate>
void load_codes(const void* source, const float* scales, Accumulate* __restrict__ values, int64_t count) {
  const Code* __restrict__ codes = static_cast<const Code*>(source);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const float scale = scales[begin / kBlock];
    const int64_t end = begin + kBlock < count ? begin + kBlock : count;
    for (int64_t index = begin; index < end; ++index) {
      values[index] = static_cast<Accumulate>(decoded(codes[index], scale));
    }
  }
}

template <class Element, class Accumulate>
void store_by_chance(
    const Accumulate* __restrict__ values, Element* __restrict__ elements, int64_t count, const Rounding& rounding) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const uint32_t key = random_block_key(rounding.key, rounding.block + begin / kBlock);
    const int32_t lanes = static_cast<int32_t>(begin + kBlock < count ? kBlock : count - begin);
    for (int32_t lane = 0; lane < lanes; ++lane) {
      const uint32_t bits = random_bits(key, static_cast<uint32_t>(lane));
      elements[begin + lane] = StochasticStore<Element>::from(static_cast<float>(values[begin + lane]), bits);
    }
  }
}

template <class Element, class Accumulate>
void store_elements(
    const Accumulate* __restrict__ values, void* target, float*, int64_t count, const Rounding& rounding) {
  Element* __restrict__ elements = static_cast<Element*>(target);
  if constexpr (sizeof(Element) == 2) {
    if (rounding.stochastic) return store_by_chance(values, elements, count, rounding);
  }
  for (int64_t index = 0; index < count; ++index) {
    elements[index] = converted<Element>(values[index]);
  }
}

template <class Code>
void encode_block(
    const float* __restrict__ values, Code* __restrict__ codes, float* scale, int32_t count, const Rounding& rounding,
    int64_t block) {
  int32_t largest = 0;
  for (int32_t lane = 0; lane < count; ++lane) {
    const int32_t magnitude = magnitude_bits(values[lane]);
    largest = magnitude > largest ? magnitude : largest;
  }
  const float magnitude = detail::float_of(static_cast<uint32_t>(largest));
  *scale = magnitude;
  if (!is_codable(magnitude)) {
    for (int32_t lane = 0; lane < count; ++lane) codes[lane] = 0;
  } else if (rounding.stochastic) {
    const uint32_t key = random_block_key(rounding.key, block);
    for (int32_t lane = 0; lane < count; ++lane) {
      codes[lane] = encoded<Code>(values[lane], magnitude, uniform(random_bits(key, static_cast<uint32_t>(lane))));
    }
  } else {
    for (int32_t lane = 0; lane < count; ++lane) codes[lane] = encoded<Code>(values[lane], magnitude);
  }
}

template <class Code, class Accumulate>
void store_codes(
    const Accumulate* __restrict__ values, void* target, float* scales, int64_t count, const Rounding& rounding) {
  Code* codes = static_cast<Code*>(target);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int32_t lanes = static_cast<int32_t>(begin + kBlock < count ? kBlock : count - begin);
    float block[kBlock];
    for (int32_t lane = 0; lane < lanes; ++lane) block[lane] = static_cast<float>(values[begin + lane]);
    const int64_t number = begin / kBlock;
    encode_block(block, codes + begin, scales + number, lanes, rounding, rounding.block + number);
  }
}

template <class Accumulate>
constexpr StepMemoryKernels<Accumulate> step_memory_functions = {
    .load =
        {load_elements<float, Accumulate>, load_elements<double, Accumulate>, load_elements<BFloat16, Accumulate>,
         load_elements<Float16, Accumulate>, load_codes<int8_t, Accumulate>, load_codes<uint8_t, Accumulate>},
    .store =
        {store_elements<float, Accumulate>, store_elements<double, Accumulate>, store_elements<BFloat16, Accumulate>,
         store_elements<Float16, Accumulate>, store_codes<int8_t, Accumulate>, store_codes<uint8_t, Accumulate>},
};

}  // namespace

constinit const PerAccumulate<StepMemoryKernels> step_memory_kernels = BURNLIKE_PER_ACCUMULATE(step_memory_functions);
