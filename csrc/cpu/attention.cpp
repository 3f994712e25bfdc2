// Attention on the CPU: torch's forward pass, and passes of ours where they are faster than torch's.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <tuple>

#include "attention_backward.h"
#include "attention_forward.h"
#include "burnlike/attention_check.h"
#include "burnlike/calls.h"

namespace burnlike::cpu {
namespace {

using Gradients = std::tuple<Tensor, Tensor, Tensor>;

CallCounter forward_calls{"attention"};
CallCounter backward_calls{"attention_backward"};

AtenTensorHandle* handle_of(const std::optional<Tensor>& tensor, AtenTensorHandle& handle) {
  if (!tensor) return nullptr;
  handle = tensor->get();
  return &handle;
}

// The tensor itself where its rows can be read, else a copy.
Tensor with_rows(const Tensor& tensor) {
  const bool is_usable =
      tensor.stride(3) == 1 && is_aligned(tensor.const_data_ptr(), element_size(element_kind(tensor)));
  return is_usable ? tensor : contiguous_copy(tensor);
}

// `[batch, heads, length, width]`, in memory `[batch, length, heads, width]`, as torch's.
Tensor new_heads(const Tensor& like) {
  const int64_t batch = like.size(0), heads = like.size(1), length = like.size(2), width = like.size(3);
  const int64_t sizes[] = {batch, heads, length, width};
  const int64_t strides[] = {length * heads * width, width, heads * width, 1};
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      4, sizes, strides, dtype_code(element_kind(like)), aoti_torch_device_type_cpu(), 0, &handle));
  return Tensor(handle);
}

bool multiplies_bfloat16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// Whether products in bfloat16 gain more than copies of keys and values cost.
bool own_forward_is_faster(const Tensor& query, const Tensor& key) {
  constexpr int64_t kFewestQueries = 32;
  constexpr int64_t kFewestScores = 128 * 128;
  return element_kind(query) == ElementKind::kBFloat16 && multiplies_bfloat16() && query.size(2) >= kFewestQueries &&
         query.size(2) * key.size(2) >= kFewestScores;
}

template <class Element>
std::tuple<Tensor, Tensor> own_forward(
    const Tensor& query, const Tensor& key, const Tensor& value, bool causal, double scale) {
  using Accumulate = accumulate_t<Element>;
  const Tensor output = new_heads(query);
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2);
  const int64_t sizes[] = {batch, heads, queries};
  const int64_t strides[] = {heads * queries, 1, heads};
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      3, sizes, strides, dtype_code(kind_of<Accumulate>), aoti_torch_device_type_cpu(), 0, &handle));
  const Tensor logsumexp(handle);
  const AttentionForward<Element> forward{
      .sizes = {batch, heads, key.size(1), queries, key.size(2), query.size(3)},
      .causal = causal,
      .scale = static_cast<Accumulate>(scale),
      .query = heads_of(query, data_of<Element>(query)),
      .key = heads_of(key, data_of<Element>(key)),
      .value = heads_of(value, data_of<Element>(value)),
      .output = heads_of(output, mutable_data_of<Element>(output)),
      .logsumexp = heads_of(logsumexp, mutable_data_of<Accumulate>(logsumexp)),
  };
  forward.run();
  return {output, logsumexp};
}

std::tuple<Tensor, Tensor> attention(
    const Tensor& query_any, const Tensor& key_any, const Tensor& value_any, const std::optional<Tensor>& mask,
    bool causal, double scale) {
  forward_calls.add();
  check_attention_inputs(query_any, key_any, value_any, mask);
  for (const Tensor* tensor : {&query_any, &key_any, &value_any}) check_storage(*tensor);
  if (mask) check_storage(*mask);
  const Tensor query = with_rows(query_any);
  const Tensor key = with_rows(key_any);
  const Tensor value = with_rows(value_any);
  if (!mask && own_forward_is_faster(query, key)) return own_forward<BFloat16>(query, key, value, causal, scale);
  AtenTensorHandle mask_handle = nullptr;
  AtenTensorHandle output = nullptr;
  AtenTensorHandle logsumexp = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu(
      query.get(), key.get(), value.get(), 0.0, causal, handle_of(mask, mask_handle), &scale, &output, &logsumexp));
  return {Tensor(output), Tensor(logsumexp)};
}

AttentionBias bias_of(const std::optional<Tensor>& mask) {
  if (!mask) return {};
  check_storage(*mask);
  STD_TORCH_CHECK(
      is_aligned(mask->const_data_ptr(), element_size(element_kind(*mask))), "attention: mask is not aligned");
  return {
      mask->const_data_ptr(),
      element_kind(*mask),
      {mask->stride(0), mask->stride(1), mask->stride(2), mask->stride(3)}};
}

Gradients attention_backward(
    const Tensor& grad_any, const Tensor& query_any, const Tensor& key_any, const Tensor& value_any,
    const Tensor& output_any, const Tensor& logsumexp, const std::optional<Tensor>& mask, bool causal, double scale) {
  backward_calls.add();
  check_attention_inputs(query_any, key_any, value_any, mask);
  check_attention_results(query_any, grad_any, output_any, logsumexp);
  const Tensor grad = with_rows(grad_any);
  const Tensor query = with_rows(query_any);
  const Tensor key = with_rows(key_any);
  const Tensor value = with_rows(value_any);
  const Tensor output = with_rows(output_any);
  const Tensor grad_query = new_heads(query);
  const Tensor grad_key = new_heads(key);
  const Tensor grad_value = new_heads(value);
  with_element_type(element_kind(query), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    const AttentionBackward<Element> backward{
        .sizes = {query.size(0), query.size(1), key.size(1), query.size(2), key.size(2), query.size(3)},
        .causal = causal,
        .scale = static_cast<Accumulate>(scale),
        .bias = bias_of(mask),
        .grad = heads_of(grad, data_of<Element>(grad)),
        .query = heads_of(query, data_of<Element>(query)),
        .key = heads_of(key, data_of<Element>(key)),
        .value = heads_of(value, data_of<Element>(value)),
        .output = heads_of(output, data_of<Element>(output)),
        .logsumexp = heads_of(logsumexp, data_of<Accumulate>(logsumexp)),
        .grad_query = heads_of(grad_query, mutable_data_of<Element>(grad_query)),
        .grad_key = heads_of(grad_key, mutable_data_of<Element>(grad_key)),
        .grad_value = heads_of(grad_value, mutable_data_of<Element>(grad_value)),
    };
    backward.run();
  });
  return {grad_query, grad_key, grad_value};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale) -> (Tensor, Tensor)");
  library.def(
      "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor logsumexp, "
      "Tensor? mask, bool causal, float scale) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("attention", TORCH_BOX(&burnlike::cpu::attention));
  library.impl("attention_backward", TORCH_BOX(&burnlike::cpu::attention_backward));
}
