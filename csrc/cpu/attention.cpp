// Attention on the CPU: torch's forward pass, and passes of ours where they are faster than torch's.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <tuple>

#include "attention_backward.h"
#include "attention_bf16.h"
#include "burnlike/attention_check.h"
#include "burnlike/calls.h"

namespace burnlike::cpu {
namespace {

using Gradients = std::tuple<Tensor, Tensor, Tensor>;
// The output, of each query its largest score, and the logarithm of its sum of exponentials of scores less that.
// Torch's forward pass gives the sum of the two, in the place of the first.
using Results = std::tuple<Tensor, Tensor, Tensor>;

CallCounter forward_calls{"attention"};
CallCounter backward_calls{"attention_backward"};

AtenTensorHandle* handle_of(const std::optional<Tensor>& tensor, AtenTensorHandle& handle) {
  if (!tensor) return nullptr;
  handle = tensor->get();
  return &handle;
}

// The tensor itself where its rows can be read, else a copy: torch's products take no rows that overlap.
Tensor with_rows(const Tensor& tensor) {
  const bool is_apart = tensor.size(2) == 1 || tensor.stride(2) >= tensor.size(3);
  const bool is_usable =
      tensor.stride(3) == 1 && is_apart && is_aligned(tensor.const_data_ptr(), element_size(element_kind(tensor)));
  return is_usable ? tensor : contiguous_copy(tensor);
}

// `[batch, heads, length, width]`, in memory `[batch, length, heads, width]`, as torch's.
Tensor new_heads(const Tensor& like) {
  const int64_t batch = like.size(0), heads = like.size(1), length = like.size(2), width = like.size(3);
  return new_strided(
      {batch, heads, length, width}, {length * heads * width, width, heads * width, 1}, element_kind(like), like);
}

AttentionBias bias_of(const std::optional<Tensor>& mask) {
  if (!mask) return {};
  check_storage(*mask);
  STD_TORCH_CHECK(
      is_aligned(mask->const_data_ptr(), element_size(element_kind(*mask))), "attention: mask or noise is not aligned");
  return {
      mask->const_data_ptr(),
      element_kind(*mask),
      {mask->stride(0), mask->stride(1), mask->stride(2), mask->stride(3)}};
}

// Those of a call in bfloat16, or null where it is not for them.
const Bf16AttentionKernels* bf16_kernels(const Tensor& query) {
  return element_kind(query) == ElementKind::kBFloat16 ? attention_bf16_kernels() : nullptr;
}

AttentionSizes sizes_of(const Tensor& query, const Tensor& key) {
  return {query.size(0), query.size(1), key.size(1), query.size(2), key.size(2), query.size(3)};
}

template <class Element>
Heads<const Element> read_heads(const Tensor& tensor) {
  return heads_of(tensor, data_of<Element>(tensor));
}

template <class Element>
Heads<Element> write_heads(const Tensor& tensor) {
  return heads_of(tensor, mutable_data_of<Element>(tensor));
}

Bf16Attention bf16_call(
    const Tensor& query, const Tensor& key, const std::optional<Tensor>& mask, const std::optional<Tensor>& noise,
    bool causal, double scale, double soft_cap) {
  return {
      .sizes = sizes_of(query, key),
      .causal = causal,
      .scale = static_cast<float>(scale),
      .soft_cap = static_cast<float>(soft_cap),
      .bias = bias_of(mask),
      .noise = bias_of(noise)};
}

// Only the kernels of bfloat16 have them.
void check_options(const Bf16AttentionKernels* kernels, const std::optional<Tensor>& noise, double soft_cap) {
  STD_TORCH_CHECK(
      kernels != nullptr || (!noise && soft_cap == 0.0),
      "attention: noise and a soft cap need bfloat16 on a CPU that multiplies it");
}

Results bf16_forward(
    const Bf16AttentionKernels& kernels, const Tensor& query, const Tensor& key, const Tensor& value,
    const std::optional<Tensor>& mask, const std::optional<Tensor>& noise, bool causal, double scale, double soft_cap) {
  const Tensor output = new_heads(query);
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2);
  const auto of_queries = [&] {
    return new_strided({batch, heads, queries}, {heads * queries, 1, heads}, ElementKind::kFloat32, query);
  };
  const Tensor largest = of_queries(), logarithms = of_queries();
  const Bf16AttentionForward forward{
      bf16_call(query, key, mask, noise, causal, scale, soft_cap),
      read_heads<BFloat16>(query),
      read_heads<BFloat16>(key),
      read_heads<BFloat16>(value),
      write_heads<BFloat16>(output),
      write_heads<float>(largest),
      write_heads<float>(logarithms)};
  forward.run(kernels);
  return {output, largest, logarithms};
}

Results attention(
    const Tensor& query_any, const Tensor& key_any, const Tensor& value_any, const std::optional<Tensor>& mask,
    const std::optional<Tensor>& noise, bool causal, double scale, double soft_cap) {
  forward_calls.add();
  check_attention_inputs(query_any, key_any, value_any, mask, noise, soft_cap);
  for (const Tensor* tensor : {&query_any, &key_any, &value_any}) check_storage(*tensor);
  for (const auto* each : {&mask, &noise}) bias_of(*each);  // which checks its memory, also where torch reads it
  const Tensor query = with_rows(query_any);
  const Tensor key = with_rows(key_any);
  const Tensor value = with_rows(value_any);
  const auto* kernels = bf16_kernels(query);
  check_options(kernels, noise, soft_cap);
  if (kernels != nullptr) return bf16_forward(*kernels, query, key, value, mask, noise, causal, scale, soft_cap);
  AtenTensorHandle mask_handle = nullptr;
  AtenTensorHandle output = nullptr;
  AtenTensorHandle logsumexp = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu(
      query.get(), key.get(), value.get(), 0.0, causal, handle_of(mask, mask_handle), &scale, &output, &logsumexp));
  return {Tensor(output), Tensor(logsumexp), new_contiguous({0}, ElementKind::kFloat32, query)};
}

Gradients attention_backward(
    const Tensor& grad_any, const Tensor& query_any, const Tensor& key_any, const Tensor& value_any,
    const Tensor& output_any, const Tensor& largest, const Tensor& logarithms, const std::optional<Tensor>& mask,
    const std::optional<Tensor>& noise, bool causal, double scale, double soft_cap) {
  backward_calls.add();
  check_attention_inputs(query_any, key_any, value_any, mask, noise, soft_cap);
  check_attention_results(query_any, grad_any, output_any, largest);
  const Tensor grad = with_rows(grad_any);
  const Tensor query = with_rows(query_any);
  const Tensor key = with_rows(key_any);
  const Tensor value = with_rows(value_any);
  const Tensor output = with_rows(output_any);
  const Tensor grad_query = new_heads(query);
  const Tensor grad_key = new_heads(key);
  const Tensor grad_value = new_heads(value);
  const auto* kernels = bf16_kernels(query);
  check_options(kernels, noise, soft_cap);
  if (kernels != nullptr) {
    check_of_queries(query_any, logarithms);
    const Bf16AttentionBackward backward{
        bf16_call(query, key, mask, noise, causal, scale, soft_cap),
        read_heads<BFloat16>(grad),
        read_heads<BFloat16>(query),
        read_heads<BFloat16>(key),
        read_heads<BFloat16>(value),
        read_heads<BFloat16>(output),
        read_heads<float>(largest),
        read_heads<float>(logarithms),
        write_heads<BFloat16>(grad_query),
        write_heads<BFloat16>(grad_key),
        write_heads<BFloat16>(grad_value)};
    backward.run(*kernels);
    return {grad_query, grad_key, grad_value};
  }
  with_element_type(element_kind(query), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    const AttentionBackward<Element> backward{
        .sizes = sizes_of(query, key),
        .causal = causal,
        .scale = static_cast<Accumulate>(scale),
        .bias = bias_of(mask),
        .grad = read_heads<Element>(grad),
        .query = read_heads<Element>(query),
        .key = read_heads<Element>(key),
        .value = read_heads<Element>(value),
        .output = read_heads<Element>(output),
        .logsumexp = read_heads<Accumulate>(largest),
        .grad_query = write_heads<Element>(grad_query),
        .grad_key = write_heads<Element>(grad_key),
        .grad_value = write_heads<Element>(grad_value),
    };
    backward.run();
  });
  return {grad_query, grad_key, grad_value};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? noise, bool causal, float scale, "
      "float soft_cap) -> (Tensor, Tensor, Tensor)");
  library.def(
      "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor largest, "
      "Tensor logarithms, Tensor? mask, Tensor? noise, bool causal, float scale, float soft_cap) -> (Tensor, Tensor, "
      "Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("attention", TORCH_BOX(&burnlike::cpu::attention));
  library.impl("attention_backward", TORCH_BOX(&burnlike::cpu::attention_backward));
}
