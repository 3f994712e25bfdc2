// What a step of decoding reads, checked: the parts of each block in the order in which the list of weights has them.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "burnlike/tensor_list.h"
#include "isa/decode_step.h"
#include "isa/few_rows.h"

namespace burnlike::cpu {

// Numbers of the model, in the order of the op's argument `form`.
struct DecodeForm {
  int64_t heads, heads_kv, width, activation;
  bool is_gated, is_centered, has_projection_bias, has_output_bias, has_feed_forward_bias, has_head_norms, interleaved,
      is_tied;
  int64_t window;  // 0: none
  // Each block also attends to a memory.
  bool has_memory;
  bool is_scaled;  // scores are, by 1 / sqrt(width)
  // What parts give is added to normalized vectors, as in BART, not to those that are normalized.
  bool adds_to_normalized;
  bool has_tables;  // all weights are the transposes of the products' ones

  static constexpr size_t kCount = 17;

  explicit DecodeForm(const std::vector<int64_t>& values) {
    STD_TORCH_CHECK(values.size() == kCount, "decode_step: form: expected ", kCount, " numbers");
    const auto size = [&](size_t at, int64_t most) {
      STD_TORCH_CHECK(0 <= values[at] && values[at] <= most, "decode_step: form: number ", at, " is out of range");
      return values[at];
    };
    constexpr int64_t kMostHeads = 1 << 16;
    heads = size(0, kMostHeads), heads_kv = size(1, kMostHeads), width = size(2, kMostHeadWidth);
    activation = size(3, 3);
    is_gated = size(4, 1) != 0, is_centered = size(5, 1) != 0, has_projection_bias = size(6, 1) != 0;
    has_output_bias = size(7, 1) != 0, has_feed_forward_bias = size(8, 1) != 0, has_head_norms = size(9, 1) != 0;
    interleaved = size(10, 1) != 0, is_tied = size(11, 1) != 0, window = size(12, INT64_MAX);
    has_memory = size(13, 1) != 0, is_scaled = size(14, 1) != 0, adds_to_normalized = size(15, 1) != 0;
    has_tables = size(16, 1) != 0;
    STD_TORCH_CHECK(heads > 0 && heads_kv > 0 && width > 0 && heads % heads_kv == 0, "decode_step: form: heads");
  }
};

// Rows of numbers, and the same as the products take them.
struct Rows {
  float* data;
  int64_t stride;
  int64_t count;
  float* packed;

  // Packs the columns from `begin` to `end`, of `width` in all.
  void pack(int64_t width, int64_t begin, int64_t end) const {
    for (int64_t first = 0; first < count; first += kRowsAtATime) {
      const int64_t rows = std::min(kRowsAtATime, count - first);
      for (int64_t row = 0; row < rows; ++row) {
        const float* from = data + (first + row) * stride;
        float* to = packed + first * width + row;
        for (int64_t column = begin; column < end; ++column) to[column * rows] = from[column];
      }
    }
  }
};

// A weight where it lies, as `[d_input, d_output]` or transposed.
struct DecodeWeight {
  enum class Kind : uint8_t { kFloat32, kBFloat16, kInt8 };

  Kind kind;
  const void* data;
  int64_t stride, d_input, d_output;
  bool is_transposed;
  const float* input_scale;
  const float* bias;
};

// Takes the tensors of a list one after the other, each checked to have the shape that its place asks for.
class DecodeReader {
 public:
  DecodeReader(const TensorList& list, bool has_tables) : list_(list), has_tables_(has_tables) {}

  // A vector of `count` numbers, or of a column of them, as floats.
  const float* vector(int64_t count) {
    const TensorFacts& facts = next();
    STD_TORCH_CHECK(
        facts.count == count && facts.data != nullptr, "decode_step: a vector of weights has another shape");
    const ElementKind kind = element_kind(facts.dtype);
    if (kind == ElementKind::kFloat32) return static_cast<const float*>(facts.data);
    STD_TORCH_CHECK(kind == ElementKind::kBFloat16, "decode_step: expected vectors in float32 or bfloat16");
    const auto* values = static_cast<const BFloat16*>(facts.data);
    std::vector<float>& floats = storage_.emplace_back(static_cast<size_t>(count));
    for (int64_t index = 0; index < count; ++index) floats[static_cast<size_t>(index)] = load(values[index]);
    return floats.data();
  }

  // An empty gamma is no norm.
  DecodeNorm norm(int64_t count, bool centered, double epsilon) {
    if (at_ < list_.size() && list_[at_].count == 0) {
      next();
      return {};
    }
    const float* gamma = vector(count);
    return {gamma, centered ? vector(count) : nullptr, static_cast<float>(epsilon), centered};
  }

  // `d_output` 0 takes any; a weight in int8 is followed by a scale for each of its rows. A table is the weight's
  // transpose.
  DecodeWeight weight(int64_t d_input, int64_t d_output, bool has_bias, bool is_table = false) {
    const TensorFacts& facts = next();
    is_table |= has_tables_;
    const int input_dim = is_table ? 1 : 0;
    DecodeWeight weight{};
    STD_TORCH_CHECK(
        facts.dim == 2 && facts.sizes[input_dim] == d_input && facts.sizes[1 - input_dim] > 0 &&
            (d_output == 0 || facts.sizes[1 - input_dim] == d_output),
        "decode_step: a weight has another shape");
    weight.d_input = d_input;
    weight.d_output = facts.sizes[1 - input_dim];
    weight.kind = kind_of_weight(facts.dtype);
    int64_t* strides = nullptr;
    void* data = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(facts.handle, &strides));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(facts.handle, &data));
    const bool has_rows = strides[1] == 1;
    weight.is_transposed = has_rows == is_table;
    weight.stride = strides[has_rows ? 0 : 1];
    constexpr int64_t sizes[] = {4, 2, 1};
    STD_TORCH_CHECK(
        (has_rows || strides[0] == 1) && is_aligned(data, sizes[static_cast<size_t>(weight.kind)]),
        "decode_step: expected weights whose rows or columns lie in one piece");
    weight.data = data;
    if (weight.kind == DecodeWeight::Kind::kInt8) {
      STD_TORCH_CHECK(!weight.is_transposed, "decode_step: expected weights in int8 in rows");
      weight.input_scale = vector(d_input);
    }
    if (has_bias) weight.bias = vector(weight.d_output);
    return weight;
  }

  bool is_done() const { return at_ == list_.size(); }

 private:
  const TensorFacts& next() {
    STD_TORCH_CHECK(at_ < list_.size(), "decode_step: expected more weights");
    const TensorFacts& facts = list_[at_++];
    STD_TORCH_CHECK(facts.device_type == aoti_torch_device_type_cpu(), "decode_step: weights are not on the CPU");
    return facts;
  }

  static DecodeWeight::Kind kind_of_weight(int32_t dtype) {
    if (dtype == aoti_torch_dtype_int8()) return DecodeWeight::Kind::kInt8;
    const ElementKind kind = element_kind(dtype);
    STD_TORCH_CHECK(
        kind == ElementKind::kFloat32 || kind == ElementKind::kBFloat16,
        "decode_step: expected weights in float32, bfloat16 or int8");
    return kind == ElementKind::kFloat32 ? DecodeWeight::Kind::kFloat32 : DecodeWeight::Kind::kBFloat16;
  }

  const TensorList& list_;
  bool has_tables_;
  size_t at_ = 0;
  std::vector<std::vector<float>> storage_;
};

struct DecodeBlock {
  DecodeNorm norm_attention, query_norm, key_norm, norm_memory, norm_feed_forward;
  DecodeWeight query, key, value, output, memory_query, memory_output, inner, outer, last;

  DecodeBlock(DecodeReader& reader, const DecodeForm& form, int64_t d_model, double epsilon) {
    const int64_t own = form.heads * form.width;
    const int64_t shared = form.heads_kv * form.width;
    norm_attention = reader.norm(d_model, form.is_centered, epsilon);
    query = reader.weight(d_model, own, form.has_projection_bias);
    key = reader.weight(d_model, shared, form.has_projection_bias);
    value = reader.weight(d_model, shared, form.has_projection_bias);
    output = reader.weight(own, d_model, form.has_output_bias);
    query_norm = form.has_head_norms ? reader.norm(form.width, false, epsilon) : DecodeNorm{};
    key_norm = form.has_head_norms ? reader.norm(form.width, false, epsilon) : DecodeNorm{};
    if (form.has_memory) {
      norm_memory = reader.norm(d_model, form.is_centered, epsilon);
      memory_query = reader.weight(d_model, own, form.has_projection_bias);
      memory_output = reader.weight(own, d_model, form.has_output_bias);
    }
    norm_feed_forward = reader.norm(d_model, form.is_centered, epsilon);
    inner = reader.weight(d_model, 0, form.has_feed_forward_bias);
    outer = form.is_gated ? reader.weight(d_model, inner.d_output, form.has_feed_forward_bias) : DecodeWeight{};
    last = reader.weight(inner.d_output, d_model, form.has_feed_forward_bias);
  }
};

// The cached keys or values of a block.
struct DecodeCache {
  char* data;
  int64_t batch_stride, head_stride, slot_stride;  // in values
};

inline DecodeCache decode_cache(
    const TensorFacts& facts, ElementKind kind, int64_t batch, const DecodeForm& form, int64_t length) {
  const int64_t sizes[] = {batch, form.heads_kv, length, form.width};
  STD_TORCH_CHECK(
      facts.dim == 4 && std::equal(sizes, sizes + 4, facts.sizes) && element_kind(facts.dtype) == kind &&
          facts.device_type == aoti_torch_device_type_cpu(),
      "decode_step: a cache has another shape, type or device");
  int64_t* strides = nullptr;
  void* data = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(facts.handle, &strides));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(facts.handle, &data));
  STD_TORCH_CHECK(
      (strides[3] == 1 || form.width == 1) && is_aligned(data, element_size(kind)),
      "decode_step: expected caches whose rows lie in one piece");
  return {static_cast<char*>(data), strides[0], strides[1], strides[2]};
}

// A slot of the caches for each row, of `length`: the first that is no padding, or the last of a memory.
inline std::vector<int64_t> decode_slots(const Tensor& slots, int64_t length, const char* name) {
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(slots.get(), &dtype));
  STD_TORCH_CHECK(
      dtype == aoti_torch_dtype_int64() && slots.is_contiguous(), "decode_step: ", name,
      ": expected int64 [batch] in one piece");
  const auto* values = data_of<int64_t>(slots);
  const std::vector<int64_t> numbers(values, values + slots.numel());
  for (const int64_t slot : numbers) {
    STD_TORCH_CHECK(0 <= slot && slot < length, "decode_step: ", name, ": expected slots of the caches");
  }
  return numbers;
}

}  // namespace burnlike::cpu
