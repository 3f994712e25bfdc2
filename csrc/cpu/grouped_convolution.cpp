// Convolutions in groups of channels on the CPU: checks, memory and threads. The arithmetic is in
// isa/grouped_convolution.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/tensors.h"
#include "isa/grouped_convolution.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"grouped_convolution"};
CallCounter backward_calls{"grouped_convolution_backward"};

GroupedSizes sizes_of(const Tensor& x, const Tensor& weight, int64_t stride, int64_t padding) {
  const ElementKind kind = element_kind(x);
  STD_TORCH_CHECK(
      x.is_cpu() && weight.is_cpu() && x.dim() == 4 && weight.dim() == 4 && kind == element_kind(weight) &&
          (kind == ElementKind::kFloat32 || kind == ElementKind::kBFloat16),
      "grouped_convolution: expected images [n, h, w, c] and a weight [c, group, k, l] in float32 or bfloat16");
  const GroupedSizes sizes{
      x.size(0),
      x.size(1),
      x.size(2),
      x.size(3),
      weight.size(1),
      (x.size(1) + 2 * padding - weight.size(2)) / std::max<int64_t>(stride, 1) + 1,
      (x.size(2) + 2 * padding - weight.size(3)) / std::max<int64_t>(stride, 1) + 1,
      weight.size(2),
      weight.size(3),
      stride,
      padding};
  const int64_t group = sizes.group;
  STD_TORCH_CHECK(
      (group == 1 || group == 2 || group == 4 || (group > 0 && group % 8 == 0)) && sizes.channels % group == 0,
      "grouped_convolution: expected groups of 1, 2, 4 or a multiple of 8 channels");
  STD_TORCH_CHECK(
      weight.size(0) == sizes.channels && sizes.channels >= kGroupedBlock && stride >= 1 && padding >= 0 &&
          sizes.kernel_down >= 1 && sizes.kernel_right >= 1 && sizes.height + 2 * padding >= sizes.kernel_down &&
          sizes.width + 2 * padding >= sizes.kernel_right,
      "grouped_convolution: the sizes do not fit");
  return sizes;
}

// Values `weight[first(channel) + index * step + tap]` as `[block, tap, index, channel of the block]` in float32.
template <class First>
std::vector<float> packed_weights(const Tensor& weight_any, const GroupedSizes& sizes, int64_t step, First first) {
  const Tensor weight = as_contiguous(weight_any);
  const int64_t of_block = sizes.taps() * sizes.group * kGroupedBlock;
  std::vector<float> packed(grouped_blocks(sizes) * of_block);
  with_float_or_bfloat16(element_kind(weight), [&](auto element) {
    const auto* values = data_of<decltype(element)>(weight);
    for_rows(grouped_blocks(sizes), of_block, [&](int64_t begin, int64_t end) {
      float* target = packed.data() + begin * of_block;
      for (int64_t block = begin; block < end; ++block) {
        int64_t places[kGroupedBlock];
        for (int64_t lane = 0; lane < kGroupedBlock; ++lane) places[lane] = first(start_of_block(block, sizes) + lane);
        for (int64_t tap = 0; tap < sizes.taps(); ++tap) {
          for (int64_t index = 0; index < sizes.group; ++index, target += kGroupedBlock) {
            const auto* source = values + index * step + tap;
            for (int64_t lane = 0; lane < kGroupedBlock; ++lane) target[lane] = load(source[places[lane]]);
          }
        }
      }
    });
  });
  return packed;
}

// Lines of results, each a row of kImagesAtOnce images.
int64_t lines_of(const GroupedSizes& sizes, int64_t rows) {
  return (sizes.count + kImagesAtOnce - 1) / kImagesAtOnce * rows;
}

Tensor grouped_convolution(
    const Tensor& x_any, const Tensor& weight, const std::optional<Tensor>& bias_any, int64_t stride, int64_t padding) {
  forward_calls.add();
  const GroupedSizes sizes = sizes_of(x_any, weight, stride, padding);
  std::vector<float> bias_storage;
  const float* bias = nullptr;
  std::optional<Tensor> bias_whole;
  if (bias_any) {
    STD_TORCH_CHECK(
        bias_any->is_cpu() && bias_any->dim() == 1 && bias_any->size(0) == sizes.channels &&
            element_kind(*bias_any) == element_kind(x_any),
        "grouped_convolution: expected a bias [c] of the images' dtype");
    bias_whole = as_contiguous(*bias_any);
    bias = values_of<float>(*bias_whole, bias_storage);
  }
  const Tensor x = as_contiguous(x_any);
  const Tensor y = new_contiguous({sizes.count, sizes.down, sizes.right, sizes.channels}, element_kind(x), x);
  const int64_t taps = sizes.taps(), group = sizes.group;
  const std::vector<float> packed =
      packed_weights(weight, sizes, taps, [&](int64_t channel) { return channel * group * taps; });
  with_float_or_bfloat16(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    const Element* x_data = data_of<Element>(x);
    Element* y_data = mutable_data_of<Element>(y);
    const auto forward = grouped_kernels()(element).forward;
    const int64_t work = kImagesAtOnce * sizes.right * sizes.channels * group;
    for_rows(lines_of(sizes, sizes.down), work, [&](int64_t begin, int64_t end) {
      forward(x_data, packed.data(), bias, y_data, sizes, begin, end);
    });
  });
  return y;
}

// The gradients of the images, the weight and a bias. Each sum is over the images in their order.
std::tuple<Tensor, Tensor, Tensor> grouped_convolution_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& weight, int64_t stride, int64_t padding) {
  backward_calls.add();
  const GroupedSizes sizes = sizes_of(x_any, weight, stride, padding);
  const std::vector<int64_t> expected{sizes.count, sizes.down, sizes.right, sizes.channels};
  const auto actual = grad_any.sizes();
  STD_TORCH_CHECK(
      grad_any.is_cpu() && element_kind(grad_any) == element_kind(x_any) &&
          std::equal(actual.begin(), actual.end(), expected.begin(), expected.end()),
      "grouped_convolution_backward: the gradient does not fit");
  const Tensor grad = as_contiguous(grad_any);
  const Tensor x = as_contiguous(x_any);
  const ElementKind kind = element_kind(x);
  const Tensor grad_x = new_like(x);
  const Tensor grad_weight =
      new_contiguous({sizes.channels, sizes.group, sizes.kernel_down, sizes.kernel_right}, kind, x);
  const Tensor grad_bias = new_contiguous({sizes.channels}, kind, x);
  const int64_t taps = sizes.taps(), group = sizes.group, of_block = taps * group * kGroupedBlock;
  // Of the transposed weight: channels of results and of images have changed places within each group.
  const std::vector<float> packed = packed_weights(weight, sizes, group * taps, [&](int64_t channel) {
    return (channel / group * group * group + channel % group) * taps;
  });
  std::vector<float> of_weights(grouped_blocks(sizes) * of_block);
  std::vector<float> of_bias(grouped_blocks(sizes) * kGroupedBlock);
  with_float_or_bfloat16(kind, [&](auto element) {
    using Element = decltype(element);
    const Element* grad_data = data_of<Element>(grad);
    const Element* x_data = data_of<Element>(x);
    Element* grad_x_data = mutable_data_of<Element>(grad_x);
    const auto& kernels = grouped_kernels()(element);
    const int64_t work = kImagesAtOnce * sizes.width * sizes.channels * group;
    for_rows(lines_of(sizes, sizes.height), work, [&](int64_t begin, int64_t end) {
      kernels.backward(grad_data, packed.data(), grad_x_data, sizes, begin, end);
    });
    Element* grad_weight_data = mutable_data_of<Element>(grad_weight);
    Element* grad_bias_data = mutable_data_of<Element>(grad_bias);
    const int64_t of_results = kGroupedBlock * group * sizes.count * sizes.down * sizes.right;
    for_rows(grouped_blocks(sizes), std::max<int64_t>(of_results, 1), [&](int64_t begin, int64_t end) {
      kernels.weights(grad_data, x_data, of_weights.data(), of_bias.data(), sizes, begin, end);
      for (int64_t block = begin; block < end; ++block) {
        const int64_t start = start_of_block(block, sizes);
        // The last block begins with channels that the one before has too.
        for (int64_t lane = block * kGroupedBlock - start; lane < kGroupedBlock; ++lane) {
          const float* source = of_weights.data() + block * of_block + lane;
          Element* target = grad_weight_data + (start + lane) * group * taps;
          for (int64_t index = 0; index < group; ++index) {
            for (int64_t tap = 0; tap < taps; ++tap) {
              target[index * taps + tap] = store<Element>(source[(tap * group + index) * kGroupedBlock]);
            }
          }
          grad_bias_data[start + lane] = store<Element>(of_bias[block * kGroupedBlock + lane]);
        }
      }
    });
  });
  return {grad_x, grad_weight, grad_bias};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("grouped_convolution(Tensor x, Tensor weight, Tensor? bias, int stride, int padding) -> Tensor");
  library.def(
      "grouped_convolution_backward(Tensor grad, Tensor x, Tensor weight, int stride, int padding) -> (Tensor, "
      "Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("grouped_convolution", TORCH_BOX(&burnlike::cpu::grouped_convolution));
  library.impl("grouped_convolution_backward", TORCH_BOX(&burnlike::cpu::grouped_convolution_backward));
}
