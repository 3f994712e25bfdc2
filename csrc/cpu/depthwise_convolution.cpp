// Convolutions of each channel by itself on the CPU: checks, memory and threads. The arithmetic is in
// isa/depthwise_convolution.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/tensors.h"
#include "isa/depthwise_convolution.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"depthwise_convolution"};
CallCounter backward_calls{"depthwise_convolution_backward"};

DepthwiseSizes sizes_of(const Tensor& x, const Tensor& weight, int64_t stride, int64_t padding) {
  const ElementKind kind = element_kind(x);
  STD_TORCH_CHECK(
      x.is_cpu() && weight.is_cpu() && x.dim() == 4 && weight.dim() == 4 && kind == element_kind(weight) &&
          (kind == ElementKind::kFloat32 || kind == ElementKind::kBFloat16),
      "depthwise_convolution: expected images [n, h, w, c] and a weight [c, 1, k, l] in float32 or bfloat16");
  const DepthwiseSizes sizes{
      x.size(0),
      x.size(1),
      x.size(2),
      x.size(3),
      (x.size(1) + 2 * padding - weight.size(2)) / std::max<int64_t>(stride, 1) + 1,
      (x.size(2) + 2 * padding - weight.size(3)) / std::max<int64_t>(stride, 1) + 1,
      weight.size(2),
      weight.size(3),
      stride,
      padding};
  STD_TORCH_CHECK(
      weight.size(0) == sizes.channels && weight.size(1) == 1 && sizes.channels >= kDepthwiseChannels && stride >= 1 &&
          padding >= 0 && sizes.kernel_down >= 1 && sizes.kernel_right >= 1 &&
          sizes.height + 2 * padding >= sizes.kernel_down && sizes.width + 2 * padding >= sizes.kernel_right,
      "depthwise_convolution: the sizes do not fit");
  return sizes;
}

// The weight `[c, 1, k, l]` as `[k, l, c]` in float32.
std::vector<float> taps_of(const Tensor& weight_any) {
  const Tensor weight = as_contiguous(weight_any);
  const int64_t channels = weight.size(0);
  const int64_t taps = channels == 0 ? 0 : weight.numel() / channels;
  std::vector<float> packed(channels * taps);
  with_float_or_bfloat16(element_kind(weight), [&](auto element) {
    const auto* values = data_of<decltype(element)>(weight);
    for (int64_t channel = 0; channel < channels; ++channel) {
      for (int64_t tap = 0; tap < taps; ++tap) packed[tap * channels + channel] = load(values[channel * taps + tap]);
    }
  });
  return packed;
}

Tensor depthwise_convolution(
    const Tensor& x_any, const Tensor& weight, const std::optional<Tensor>& bias_any, int64_t stride, int64_t padding) {
  forward_calls.add();
  const DepthwiseSizes sizes = sizes_of(x_any, weight, stride, padding);
  std::vector<float> bias_storage;
  const float* bias = nullptr;
  std::optional<Tensor> bias_whole;
  if (bias_any) {
    STD_TORCH_CHECK(
        bias_any->is_cpu() && bias_any->dim() == 1 && bias_any->size(0) == sizes.channels &&
            element_kind(*bias_any) == element_kind(x_any),
        "depthwise_convolution: expected a bias [c] of the images' dtype");
    bias_whole = as_contiguous(*bias_any);
    bias = values_of<float>(*bias_whole, bias_storage);
  }
  const Tensor x = as_contiguous(x_any);
  const Tensor y = new_contiguous({sizes.count, sizes.down, sizes.right, sizes.channels}, element_kind(x), x);
  const std::vector<float> taps = taps_of(weight);
  with_float_or_bfloat16(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    const Element* x_data = data_of<Element>(x);
    Element* y_data = mutable_data_of<Element>(y);
    const auto forward = depthwise_kernels()(element).forward;
    for_rows(sizes.count * sizes.down, sizes.right * sizes.channels, [&](int64_t begin, int64_t end) {
      forward(x_data, taps.data(), bias, y_data, sizes, begin, end);
    });
  });
  return y;
}

// The gradients of the images, the weight and a bias. Each sum is over the images in their order.
std::tuple<Tensor, Tensor, Tensor> depthwise_convolution_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& weight, int64_t stride, int64_t padding) {
  backward_calls.add();
  const DepthwiseSizes sizes = sizes_of(x_any, weight, stride, padding);
  const std::vector<int64_t> expected{sizes.count, sizes.down, sizes.right, sizes.channels};
  const auto actual = grad_any.sizes();
  STD_TORCH_CHECK(
      grad_any.is_cpu() && element_kind(grad_any) == element_kind(x_any) &&
          std::equal(actual.begin(), actual.end(), expected.begin(), expected.end()),
      "depthwise_convolution_backward: the gradient does not fit");
  const Tensor grad = as_contiguous(grad_any);
  const Tensor x = as_contiguous(x_any);
  const ElementKind kind = element_kind(x);
  const Tensor grad_x = new_like(x);
  const Tensor grad_weight = new_contiguous({sizes.channels, 1, sizes.kernel_down, sizes.kernel_right}, kind, x);
  const Tensor grad_bias = new_contiguous({sizes.channels}, kind, x);
  const int64_t kernel = sizes.kernel_down * sizes.kernel_right;
  const std::vector<float> taps = taps_of(weight);
  std::vector<float> of_taps(kernel * sizes.channels);
  std::vector<float> of_bias(sizes.channels);
  with_float_or_bfloat16(kind, [&](auto element) {
    using Element = decltype(element);
    const Element* grad_data = data_of<Element>(grad);
    const Element* x_data = data_of<Element>(x);
    Element* grad_x_data = mutable_data_of<Element>(grad_x);
    const auto& kernels = depthwise_kernels()(element);
    for_rows(sizes.count * sizes.height, sizes.width * sizes.channels, [&](int64_t begin, int64_t end) {
      kernels.backward(grad_data, taps.data(), grad_x_data, sizes, begin, end);
    });
    const int64_t work = kDepthwiseChannels * sizes.count * sizes.down * sizes.right;
    for_rows(sizes.channels / kDepthwiseChannels, std::max<int64_t>(work, 1), [&](int64_t begin, int64_t end) {
      kernels.weights(grad_data, x_data, of_taps.data(), of_bias.data(), sizes, begin, end);
    });
    Element* grad_weight_data = mutable_data_of<Element>(grad_weight);
    for (int64_t channel = 0; channel < sizes.channels; ++channel) {
      for (int64_t tap = 0; tap < kernel; ++tap) {
        grad_weight_data[channel * kernel + tap] = store<Element>(of_taps[tap * sizes.channels + channel]);
      }
    }
  });
  store_values(of_bias.data(), grad_bias);
  return {grad_x, grad_weight, grad_bias};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("depthwise_convolution(Tensor x, Tensor weight, Tensor? bias, int stride, int padding) -> Tensor");
  library.def(
      "depthwise_convolution_backward(Tensor grad, Tensor x, Tensor weight, int stride, int padding) -> (Tensor, "
      "Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("depthwise_convolution", TORCH_BOX(&burnlike::cpu::depthwise_convolution));
  library.impl("depthwise_convolution_backward", TORCH_BOX(&burnlike::cpu::depthwise_convolution_backward));
}
