// A step of decoding beside its products: norms, activations, and attention of one query over cached keys and values.

namespace {

BURNLIKE_INLINE float sum_of_squares(const float* x, float minus, int64_t width) {
  FloatVector sum = {};
  const FloatVector shift = all_of(minus);
  int64_t index = 0;
  for (; index + kVector <= width; index += kVector) {
    const FloatVector value = load_vector(x + index) - shift;
    sum = multiply_add(value, value, sum);
  }
  float total = sum_of(sum);
  for (; index < width; ++index) total += (x[index] - minus) * (x[index] - minus);
  return total;
}

void decode_normalize(const DecodeNorm& norm, const float* x, float* y, int64_t width) {
  float mean = 0;
  if (norm.centered) {
    FloatVector sum = {};
    int64_t index = 0;
    for (; index + kVector <= width; index += kVector) sum += load_vector(x + index);
    mean = sum_of(sum);
    for (; index < width; ++index) mean += x[index];
    mean /= static_cast<float>(width);
  }
  const float square = sum_of_squares(x, mean, width) / static_cast<float>(width);
  const float scale = 1.0f / square_root(square + norm.epsilon);
  for (int64_t index = 0; index < width; ++index) y[index] = (x[index] - mean) * scale * norm.gamma[index];
  if (norm.beta != nullptr) {
    for (int64_t index = 0; index < width; ++index) y[index] += norm.beta[index];
  }
}

struct DecodeRelu {
  BURNLIKE_INLINE static float value(float x) { return x > 0.0f ? x : x == x ? 0.0f : x; }
};

template <class Function>
BURNLIKE_INLINE void decode_activate_by(float* __restrict__ values, const float* __restrict__ factors, int64_t count) {
  if (factors == nullptr) {
    for (int64_t index = 0; index < count; ++index) values[index] = Function::value(values[index]);
  } else {
    for (int64_t index = 0; index < count; ++index) values[index] = Function::value(values[index]) * factors[index];
  }
}

void decode_activate(DecodeActivation activation, float* values, const float* factors, int64_t count) {
  switch (activation) {
    case DecodeActivation::kSilu:
      return decode_activate_by<Silu>(values, factors, count);
    case DecodeActivation::kGelu:
      return decode_activate_by<Gelu>(values, factors, count);
    case DecodeActivation::kTanhGelu:
      return decode_activate_by<TanhGelu>(values, factors, count);
    default:
      return decode_activate_by<DecodeRelu>(values, factors, count);
  }
}

template <class Element>
void decode_turn(const DecodeHeads<Element>& heads, float* x) {
  const int64_t step = heads.interleaved ? 2 : 1;
  const int64_t apart = heads.interleaved ? 1 : heads.half;
  for (int64_t index = 0; index < heads.half; ++index) {
    const float sine = heads.sine[index];
    float& first = x[step * index];
    float& second = x[step * index + apart];
    const auto turned = rotary_turned(first, second, heads.cosine[index], sine, -sine, heads.cosine[index]);
    first = turned.first;
    second = turned.second;
  }
}

template <class Element>
BURNLIKE_INLINE float decode_dot(const float* query, const Element* key, int64_t width) {
  FloatVector sum = {};
  int64_t index = 0;
  for (; index + kVector <= width; index += kVector) {
    sum = multiply_add(load_vector(query + index), load_vector(key + index), sum);
  }
  float total = sum_of(sum);
  for (; index < width; ++index) total += query[index] * load(key[index]);
  return total;
}

constexpr int64_t kDecodeBlock = 128;
constexpr int64_t kDecodeAhead = 8;  // keys that are fetched before they are needed

// result = result * fade + the values' sum by scores.
template <int kParts, class Element>
BURNLIKE_INLINE void decode_sums(
    const float* scores, int64_t count, const Element* values, int64_t stride, float fade, float* result) {
  FloatVector totals[kParts];
  for (int part = 0; part < kParts; ++part) totals[part] = load_vector(result + part * kVector) * all_of(fade);
  for (int64_t index = 0; index < count; ++index) {
    const FloatVector score = all_of(scores[index]);
    for (int part = 0; part < kParts; ++part) {
      totals[part] = multiply_add(score, load_vector(values + index * stride + part * kVector), totals[part]);
    }
  }
  for (int part = 0; part < kParts; ++part) store_vector(result + part * kVector, totals[part]);
}

// One head, block by block of keys, with the largest score so far (Milakov & Gimelshein 2018, algorithm 3).
template <class Element>
void decode_head(const DecodeHeads<Element>& heads, float* query, const float* bias, float* result) {
  float scores[kDecodeBlock];
  float largest = -__builtin_inff();
  float sum = 0;
  for (int64_t index = 0; index < heads.width; ++index) result[index] = 0;
  for (int64_t begin = heads.first; begin <= heads.last; begin += kDecodeBlock) {
    const int64_t rest = heads.last + 1 - begin;
    const int64_t count = rest < kDecodeBlock ? rest : kDecodeBlock;
    float highest = largest;
    for (int64_t index = 0; index < count; ++index) {
      const int64_t slot = begin + index;
      for (int64_t ahead = 0; ahead < heads.width; ahead += 64 / int64_t{sizeof(Element)}) {
        __builtin_prefetch(heads.keys + (slot + kDecodeAhead) * heads.key_stride + ahead);
        __builtin_prefetch(heads.values + slot * heads.value_stride + ahead);
      }
      float score = decode_dot(query, heads.keys + slot * heads.key_stride, heads.width) * heads.scale;
      if (heads.soft_cap != 0) score = heads.soft_cap * hyperbolic_tangent(score / heads.soft_cap);
      if (bias != nullptr) score += bias[heads.last - slot];
      scores[index] = score;
      highest = score > highest ? score : highest;
    }
    const float fade = largest == highest ? 1.0f : exponential(largest - highest);
    largest = highest;
    sum *= fade;
    for (int64_t index = 0; index < count; ++index) scores[index] = exponential(scores[index] - largest);
    for (int64_t index = 0; index < count; ++index) sum += scores[index];
    const Element* values = heads.values + begin * heads.value_stride;
    int64_t column = 0;
    for (; column + 4 * kVector <= heads.width; column += 4 * kVector) {
      decode_sums<4>(scores, count, values + column, heads.value_stride, fade, result + column);
    }
    for (; column + kVector <= heads.width; column += kVector) {
      decode_sums<1>(scores, count, values + column, heads.value_stride, fade, result + column);
    }
    for (; column < heads.width; ++column) {
      float total = result[column] * fade;
      for (int64_t index = 0; index < count; ++index) {
        total += scores[index] * load(heads.values[(begin + index) * heads.value_stride + column]);
      }
      result[column] = total;
    }
  }
  for (int64_t index = 0; index < heads.width; ++index) result[index] /= sum;
}

template <class Element>
void decode_heads(const DecodeHeads<Element>& heads) {
  if (heads.key != nullptr) {
    if (heads.key_norm.gamma != nullptr) decode_normalize(heads.key_norm, heads.key, heads.key, heads.width);
    if (heads.cosine != nullptr) decode_turn(heads, heads.key);
    Element* key = heads.keys + heads.last * heads.key_stride;
    Element* value = heads.values + heads.last * heads.value_stride;
    for (int64_t index = 0; index < heads.width; ++index) key[index] = store<Element>(heads.key[index]);
    for (int64_t index = 0; index < heads.width; ++index) value[index] = store<Element>(heads.value[index]);
  }
  alignas(64) float query[kMostHeadWidth];
  for (int64_t head = 0; head < heads.group; ++head) {
    float* place = heads.query + head * heads.width;
    if (heads.query_norm.gamma != nullptr) decode_normalize(heads.query_norm, place, place, heads.width);
    if (heads.cosine != nullptr) decode_turn(heads, place);
    for (int64_t index = 0; index < heads.width; ++index) query[index] = place[index];
    decode_head(heads, query, heads.bias == nullptr ? nullptr : heads.bias + head * heads.bias_stride, place);
  }
}

}  // namespace

constinit const DecodeTable decode_step_kernels = {
    {decode_heads<float>}, {decode_heads<BFloat16>}, decode_normalize, decode_activate};
