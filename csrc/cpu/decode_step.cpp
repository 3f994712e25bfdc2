// The next tokens of each row of a batch, through all blocks of a decoder in one call: a token has hundreds of small
// operations, whose calls take longer than the operations. Weights are read where they lie.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <array>
#include <vector>

#include "burnlike/calls.h"
#include "decode_tensors.h"
#include "isa.h"
#include "phases.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"decode_step"};

constexpr int64_t kMostRows = 128;
// Weights below which a second thread costs more than it saves.
constexpr int64_t kWeightsOfThread = 1 << 15;

// Fetches the first rows of the weight that is multiplied next, while a thread waits for others.
class Ahead {
 public:
  explicit Ahead(const DecodeWeight& weight) : data_(static_cast<const char*>(weight.data)) {
    constexpr int64_t sizes[] = {4, 2, 1};
    constexpr int64_t kMostBytes = 1 << 16;
    const int64_t size = sizes[static_cast<size_t>(weight.kind)];
    stride_ = weight.stride * size;
    width_ = (weight.is_transposed ? weight.d_input : weight.d_output) * size;
    rows_ = std::min(weight.is_transposed ? weight.d_output : weight.d_input, kMostBytes / width_);
  }

  void operator()(int64_t turn) const {
    constexpr int64_t kLine = 64;
    if (turn >= rows_) return;
    for (int64_t place = 0; place < width_; place += kLine) __builtin_prefetch(data_ + turn * stride_ + place, 0, 2);
  }

 private:
  const char* data_;
  int64_t stride_, width_, rows_;
};

class Step {
 public:
  Step(
      const Tensor& x, const TensorList& weights, const TensorList& caches, const Tensor& starts,
      const std::optional<Tensor>& cosine, const std::optional<Tensor>& sine, const std::optional<Tensor>& bias,
      const std::optional<Tensor>& memory_ends, int64_t filled, const DecodeForm& form,
      const std::vector<double>& numbers)
      : form_(form), reader_(weights, form.has_tables), filled_(filled) {
    STD_TORCH_CHECK(numbers.size() == 2, "decode_step: numbers: expected an epsilon and a soft cap");
    soft_cap_ = static_cast<float>(numbers[1]);
    STD_TORCH_CHECK(
        x.dim() == 2 && element_kind(x) == ElementKind::kFloat32 && x.is_contiguous() && 0 < x.size(0) &&
            x.size(0) <= kMostRows && x.size(1) > 0,
        "decode_step: x: expected float32 [rows up to ", kMostRows, ", d_model] in one piece");
    rows_ = x.size(0), d_model_ = x.size(1);
    batch_ = starts.dim() == 1 ? starts.size(0) : 0;
    STD_TORCH_CHECK(batch_ > 0 && rows_ % batch_ == 0, "decode_step: starts: expected one of each row of tokens in x");
    new_ = rows_ / batch_;
    x_ = {mutable_data_of<float>(x), d_model_, rows_, nullptr};
    per_block_ = form.has_memory ? 4 : 2;
    STD_TORCH_CHECK(
        !caches.empty() && caches.size() % per_block_ == 0, "decode_step: caches: expected keys and values of blocks");
    STD_TORCH_CHECK(caches[0].dim == 4, "decode_step: a cache has another shape, type or device");
    cache_kind_ = element_kind(caches[0].dtype);
    STD_TORCH_CHECK(
        cache_kind_ == ElementKind::kFloat32 || cache_kind_ == ElementKind::kBFloat16,
        "decode_step: expected caches in float32 or bfloat16");
    const int64_t length = caches[0].sizes[2];
    const int64_t memory_length = form.has_memory ? caches[2].sizes[2] : 0;
    STD_TORCH_CHECK(0 <= filled && filled <= length - new_, "decode_step: no slot is left in the caches");
    for (size_t index = 0; index < caches.size(); ++index) {
      const bool is_memory = index % per_block_ > 1;
      caches_.push_back(decode_cache(caches[index], cache_kind_, batch_, form, is_memory ? memory_length : length));
    }
    starts_ = decode_slots(starts, length, "starts");
    read_tables(cosine, sine);
    read_memory(bias, memory_ends, memory_length);
    for (size_t index = 0; index < caches.size() / per_block_; ++index) {
      blocks_.emplace_back(reader_, form, d_model_, numbers[0]);
      widest_ = std::max(widest_, blocks_.back().inner.d_output);
    }
    norm_ = reader_.norm(d_model_, form.is_centered, numbers[0]);
    head_ = reader_.weight(d_model_, 0, false, form.is_tied);
    STD_TORCH_CHECK(reader_.is_done(), "decode_step: expected fewer weights");
  }

  Tensor run(const Tensor& like) {
    const Tensor logits = new_contiguous({batch_, head_.d_output}, ElementKind::kFloat32, like);
    const Rows to_logits{mutable_data_of<float>(logits), head_.d_output, batch_, nullptr};
    const int64_t own = form_.heads * form_.width;
    const int64_t shared = form_.heads_kv * form_.width;
    std::vector<float> memory(static_cast<size_t>(rows_ * (2 * d_model_ + 2 * own + 2 * shared + 3 * widest_)));
    float* free = memory.data();
    const auto rows_of = [&](int64_t width, bool is_packed) {
      const Rows rows{free, width, rows_, is_packed ? free + rows_ * width : nullptr};
      free += (is_packed ? 2 : 1) * rows_ * width;
      return rows;
    };
    normalized_ = rows_of(d_model_, true), query_ = rows_of(own, true), inner_ = rows_of(widest_, true);
    key_ = rows_of(shared, false), value_ = rows_of(shared, false), outer_ = rows_of(widest_, false);
    last_ = {normalized_.data + (new_ - 1) * d_model_, new_ * d_model_, batch_, normalized_.packed};
    const int64_t weights = d_model_ * (own + widest_);
    threads_ = std::min<int64_t>(torch::stable::get_num_threads(), std::max<int64_t>(1, weights / kWeightsOfThread));
    normalize(blocks_[0].norm_attention, normalized_);
    Phases phases((form_.has_memory ? 8 : 5) * blocks_.size() + 1);
    phases.start(threads_, [&](Phases::Runner runner) {
      for (size_t index = 0; index < blocks_.size(); ++index) run_block(runner, index);
      run_products(runner, {{&head_}}, last_, {{to_logits}}, false, [] {}, head_);
    });
    return logits;
  }

 private:
  void run_block(Phases::Runner& runner, size_t index) {
    const DecodeBlock& block = blocks_[index];
    const auto nothing = [] {};
    run_products(
        runner, {{&block.query, &block.key, &block.value}}, normalized_, {{query_, key_, value_}}, false, nothing,
        block.output);
    run_attention(runner, index, false, block.output);
    const DecodeNorm& norm = form_.has_memory ? block.norm_memory : block.norm_feed_forward;
    run_products(
        runner, {{&block.output}}, query_, {{x_}}, true, [&] { normalize(norm, normalized_); },
        form_.has_memory ? block.memory_query : block.inner);
    if (form_.has_memory) {
      run_products(runner, {{&block.memory_query}}, normalized_, {{query_}}, false, nothing, block.memory_output);
      run_attention(runner, index, true, block.memory_output);
      run_products(
          runner, {{&block.memory_output}}, query_, {{x_}}, true,
          [&] { normalize(block.norm_feed_forward, normalized_); }, block.inner);
    }
    run_feed_forward(runner, block);
    const bool is_last = index + 1 == blocks_.size();
    const DecodeNorm& next = is_last ? norm_ : blocks_[index + 1].norm_attention;
    run_products(
        runner, {{&block.last}}, inner_, {{x_}}, true, [&] { normalize(next, is_last ? last_ : normalized_); },
        is_last ? head_ : blocks_[index + 1].query);
  }

  void run_attention(Phases::Runner& runner, size_t index, bool to_memory, const DecodeWeight& next) {
    const bool is_float = cache_kind_ == ElementKind::kFloat32;
    const auto run = [&](int64_t tile) {
      const int64_t row = tile / form_.heads_kv, head = tile % form_.heads_kv;
      for (int64_t token = 0; token < new_; ++token) {
        is_float ? attend<float>(index, to_memory, row, token, head)
                 : attend<BFloat16>(index, to_memory, row, token, head);
      }
    };
    runner.run(batch_ * form_.heads_kv, run, [&] { query_.pack(query_.stride, 0, query_.stride); }, Ahead(next));
  }

  // Products of the same rows with weights of which those that are missing are null.
  template <class Finish>
  void run_products(
      Phases::Runner& runner, const std::array<const DecodeWeight*, 3>& weights, const Rows& x,
      const std::array<Rows, 3>& results, bool adds, const Finish& finish, const DecodeWeight& next) {
    int64_t tiles = 0;
    for (const DecodeWeight* weight : weights) tiles += weight == nullptr ? 0 : tiles_of(*weight);
    const auto run = [&](int64_t tile) {
      size_t index = 0;
      for (; tile >= tiles_of(*weights[index]); ++index) tile -= tiles_of(*weights[index]);
      multiply(*weights[index], x, results[index], tile, adds);
    };
    runner.run(tiles, run, finish, Ahead(next));
  }

  void run_feed_forward(Phases::Runner& runner, const DecodeBlock& block) {
    const auto activation = static_cast<DecodeActivation>(form_.activation);
    const auto run = [&](int64_t tile) {
      multiply(block.inner, normalized_, inner_, tile, false);
      if (form_.is_gated) multiply(block.outer, normalized_, outer_, tile, false);
      const int64_t width = tile_width(block.inner);
      const int64_t begin = tile * width;
      const int64_t count = std::min(width, block.inner.d_output - begin);
      for (int64_t row = 0; row < rows_; ++row) {
        const float* factors = form_.is_gated ? outer_.data + row * outer_.stride + begin : nullptr;
        decode_step_kernels().activate(activation, inner_.data + row * inner_.stride + begin, factors, count);
      }
      inner_.pack(block.inner.d_output, begin, begin + count);
    };
    runner.run(tiles_of(block.inner), run, [] {}, Ahead(block.last));
  }

  // As many tiles for each thread, none too small or too large.
  int64_t tile_width(const DecodeWeight& weight) const {
    constexpr int64_t kFewest = 64;
    constexpr int64_t kUnit = 32;
    const int64_t most = threads_ * kTileColumns;
    const int64_t tiles = threads_ * ((weight.d_output + most - 1) / most);
    return std::max(kFewest, ((weight.d_output + tiles - 1) / tiles + kUnit - 1) / kUnit * kUnit);
  }

  int64_t tiles_of(const DecodeWeight& weight) const {
    const int64_t width = tile_width(weight);
    return (weight.d_output + width - 1) / width;
  }

  void multiply(const DecodeWeight& weight, const Rows& x, const Rows& y, int64_t tile, bool adds) const {
    switch (weight.kind) {
      case DecodeWeight::Kind::kFloat32:
        return multiply_as<float>(weight, x, y, tile, adds);
      case DecodeWeight::Kind::kBFloat16:
        return multiply_as<BFloat16>(weight, x, y, tile, adds);
      default:
        return multiply_as<int8_t>(weight, x, y, tile, adds);
    }
  }

  template <class Weight>
  void multiply_as(const DecodeWeight& weight, const Rows& x, const Rows& y, int64_t tile, bool adds) const {
    const int64_t width = tile_width(weight);
    const int64_t begin = tile * width;
    const FewRows<Weight> product{
        .x = x.data,
        .x_stride = x.stride,
        .packed = x.packed,
        .weight = static_cast<const Weight*>(weight.data) + begin * (weight.is_transposed ? weight.stride : 1),
        .stride = weight.stride,
        .input_scale = weight.input_scale,
        .bias = weight.bias == nullptr ? nullptr : weight.bias + begin,
        .y = y.data + begin,
        .y_stride = y.stride,
        .rows = x.count,
        .d_input = weight.d_input,
        .columns = std::min(width, weight.d_output - begin),
        .adds = adds,
        .has_bfloat16_products = has_bfloat16_products_,
    };
    const FewRowsKernels<Weight>& kernels = few_rows_kernels()(Weight{});
    (weight.is_transposed ? kernels.transposed : kernels.plain)(product);
  }

  // Normalizes all rows and packs those that the next products take.
  void normalize(const DecodeNorm& norm, const Rows& taken) const {
    for (int64_t row = 0; row < rows_; ++row) {
      float* x = x_.data + row * x_.stride;
      float* y = normalized_.data + row * normalized_.stride;
      if (norm.gamma == nullptr) {
        std::copy_n(x, d_model_, y);
        continue;
      }
      decode_step_kernels().normalize(norm, x, y, d_model_);
      if (form_.adds_to_normalized) std::copy_n(y, d_model_, x);
    }
    taken.pack(d_model_, 0, d_model_);
  }

  template <class Element>
  void attend(size_t index, bool to_memory, int64_t row, int64_t token, int64_t head) const {
    const size_t first_cache = per_block_ * index + (to_memory ? 2 : 0);
    const DecodeCache& keys = caches_[first_cache];
    const DecodeCache& values = caches_[first_cache + 1];
    const auto place = [&](const DecodeCache& cache) {
      return reinterpret_cast<Element*>(cache.data) + row * cache.batch_stride + head * cache.head_stride;
    };
    const int64_t group = form_.heads / form_.heads_kv;
    const int64_t start = starts_[static_cast<size_t>(row)];
    const int64_t slot = filled_ + token;
    float* query = query_.data + (row * new_ + token) * query_.stride + head * group * form_.width;
    if (slot < start) {  // padding, which nothing sees
      std::fill(query, query + group * form_.width, 0.0f);
      return;
    }
    const int64_t from = form_.window == 0 ? 0 : std::max<int64_t>(0, slot + 1 - form_.window);
    const int64_t turn = (slot - start) * half_;
    const DecodeHeads<Element> heads{
        .query = query,
        .key = to_memory ? nullptr : key_.data + (row * new_ + token) * key_.stride + head * form_.width,
        .value = value_.data + (row * new_ + token) * value_.stride + head * form_.width,
        .keys = place(keys),
        .values = place(values),
        .key_stride = keys.slot_stride,
        .value_stride = values.slot_stride,
        .group = group,
        .width = form_.width,
        .first = to_memory ? 0 : std::max(start, from),
        .last = to_memory ? memory_ends_[static_cast<size_t>(row)] : slot,
        .cosine = cosine_ == nullptr ? nullptr : cosine_ + turn,
        .sine = cosine_ == nullptr ? nullptr : sine_ + turn,
        .half = half_,
        .interleaved = form_.interleaved,
        .query_norm = blocks_[index].query_norm,
        .key_norm = blocks_[index].key_norm,
        .scale = !form_.is_scaled ? 1.0f : 1.0f / square_root(static_cast<float>(form_.width)),
        .soft_cap = soft_cap_,
        .bias = to_memory || bias_ == nullptr ? nullptr : bias_ + head * group * distances_,
        .bias_stride = distances_,
    };
    decode_step_kernels()(Element{}).run(heads);
  }

  void read_tables(const std::optional<Tensor>& cosine, const std::optional<Tensor>& sine) {
    STD_TORCH_CHECK(cosine.has_value() == sine.has_value(), "decode_step: expected both tables or none");
    if (!cosine) return;
    for (const Tensor* table : {&*cosine, &*sine}) {
      STD_TORCH_CHECK(
          table->dim() == 2 && element_kind(*table) == ElementKind::kFloat32 && table->is_contiguous() &&
              table->size(0) >= filled_ + new_ - *std::min_element(starts_.begin(), starts_.end()) &&
              table->size(1) == cosine->size(1) && 2 * table->size(1) <= form_.width,
          "decode_step: expected tables in float32 with a row for each position, of at most half a head");
    }
    cosine_ = data_of<float>(*cosine), sine_ = data_of<float>(*sine), half_ = cosine->size(1);
  }

  void read_memory(const std::optional<Tensor>& bias, const std::optional<Tensor>& memory_ends, int64_t length) {
    STD_TORCH_CHECK(
        memory_ends.has_value() == form_.has_memory, "decode_step: memory_ends: expected them with a memory only");
    if (memory_ends) {
      STD_TORCH_CHECK(
          memory_ends->dim() == 1 && memory_ends->size(0) == batch_, "decode_step: memory_ends: expected [batch]");
      memory_ends_ = decode_slots(*memory_ends, length, "memory_ends");
    }
    if (!bias) return;
    STD_TORCH_CHECK(
        bias->dim() == 2 && element_kind(*bias) == ElementKind::kFloat32 && bias->is_contiguous() &&
            bias->size(0) == form_.heads && bias->size(1) >= filled_ + new_,
        "decode_step: bias: expected float32 [n_heads, distances] in one piece");
    bias_ = data_of<float>(*bias), distances_ = bias->size(1);
  }

  const DecodeForm& form_;
  DecodeReader reader_;
  int64_t filled_;
  float soft_cap_ = 0;
  int64_t rows_ = 0, batch_ = 0, new_ = 0, d_model_ = 0, widest_ = 0, half_ = 0, threads_ = 1;
  ElementKind cache_kind_ = ElementKind::kFloat32;
  std::vector<DecodeCache> caches_;
  size_t per_block_ = 2;  // caches of a block
  std::vector<int64_t> starts_, memory_ends_;
  std::vector<DecodeBlock> blocks_;
  DecodeNorm norm_{};
  DecodeWeight head_{};
  const float* cosine_ = nullptr;
  const float* sine_ = nullptr;
  const float* bias_ = nullptr;  // by head and distance
  int64_t distances_ = 0;
  bool has_bfloat16_products_ = isa() == Isa::kAvx512Bf16;
  Rows x_{}, normalized_{}, last_{}, query_{}, key_{}, value_{}, inner_{}, outer_{};
};

Tensor decode_step(
    Tensor x, StableListHandle weights_list, StableListHandle caches_list, const Tensor& starts,
    const std::optional<Tensor>& cosine, const std::optional<Tensor>& sine, const std::optional<Tensor>& bias,
    const std::optional<Tensor>& memory_ends, int64_t filled, const std::vector<int64_t>& form_numbers,
    const std::vector<double>& numbers) {
  calls.add();
  const TensorList weights(weights_list);
  const TensorList caches(caches_list);
  const DecodeForm form(form_numbers);
  Step step(x, weights, caches, starts, cosine, sine, bias, memory_ends, filled, form, numbers);
  return step.run(x);
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "decode_step(Tensor(a!) x, Tensor[] weights, Tensor(b!)[] caches, Tensor starts, Tensor? cosine, Tensor? sine, "
      "Tensor? bias, Tensor? memory_ends, int filled, int[] form, float[] numbers) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("decode_step", TORCH_BOX(&burnlike::cpu::decode_step));
}
