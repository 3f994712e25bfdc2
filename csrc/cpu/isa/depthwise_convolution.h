// The kernels of convolutions of each channel by itself: their bodies are in depthwise_convolution.inl.
#pragma once

#include <cstdint>

#include "burnlike/element.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Images `[count, height, width, channels]` and results `[count, down, right, channels]`, contiguous.
struct DepthwiseSizes {
  int64_t count, height, width, channels;
  int64_t down, right;
  int64_t kernel_down, kernel_right, stride, padding;
};

// `taps` are the weights as `[kernel_down, kernel_right, channels]`; channels are at least kDepthwiseChannels.
template <class Element>
struct DepthwiseKernels {
  // Rows [begin, end) of the results of all images; `bias` may be null.
  void (*forward)(
      const Element* x, const float* taps, const float* bias, Element* y, const DepthwiseSizes& sizes, int64_t begin,
      int64_t end);

  // Rows [begin, end) of the gradient of all images.
  void (*backward)(
      const Element* grad, const float* taps, Element* grad_x, const DepthwiseSizes& sizes, int64_t begin, int64_t end);

  // The gradients of the weights, `[kernel_down, kernel_right, channels]`, and of the bias, of groups [begin, end) of
  // kDepthwiseChannels channels, with the last of which come those that are left.
  void (*weights)(
      const Element* grad, const Element* x, float* grad_taps, float* grad_bias, const DepthwiseSizes& sizes,
      int64_t begin, int64_t end);
};

// Vectors of any instruction set fit in.
inline constexpr int64_t kDepthwiseChannels = 16;

BURNLIKE_KERNELS(PerFloatOrBFloat16<DepthwiseKernels>, depthwise_kernels)

}  // namespace burnlike::cpu
