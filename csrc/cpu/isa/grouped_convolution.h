// The kernels of convolutions in groups of channels: their bodies are in grouped_convolution.inl.
#pragma once

#include <cstdint>

#include "burnlike/element.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Images `[count, height, width, channels]` and results `[count, down, right, channels]`, contiguous. A result is a sum
// over the `group` channels of its group.
struct GroupedSizes {
  int64_t count, height, width, channels, group;
  int64_t down, right;
  int64_t kernel_down, kernel_right, stride, padding;

  int64_t taps() const { return kernel_down * kernel_right; }
};

// Channels of a block, into which vectors of any instruction set fit. Blocks begin at multiples of it, but the last one
// ends with the channels.
inline constexpr int64_t kGroupedBlock = 16;

// Images of which the same place is computed at once.
inline constexpr int64_t kImagesAtOnce = 4;

inline int64_t grouped_blocks(const GroupedSizes& sizes) {
  return (sizes.channels + kGroupedBlock - 1) / kGroupedBlock;
}

inline int64_t start_of_block(int64_t block, const GroupedSizes& sizes) {
  const int64_t last = sizes.channels - kGroupedBlock;
  return block * kGroupedBlock < last ? block * kGroupedBlock : last;
}

// Weights are packed as `[block, tap, channel of the group, channel of the block]`. A group has 1, 2 or 4 channels or a
// multiple of 8; channels are at least kGroupedBlock.
template <class Element>
struct GroupedKernels {
  // Rows [begin, end) of the results, of kImagesAtOnce images each; `bias` may be null.
  void (*forward)(
      const Element* x, const float* weights, const float* bias, Element* y, const GroupedSizes& sizes, int64_t begin,
      int64_t end);

  // The same of the gradient of the images.
  void (*backward)(
      const Element* grad, const float* weights, Element* grad_x, const GroupedSizes& sizes, int64_t begin,
      int64_t end);

  // The gradients of the packed weights, and of the bias as `[block, channel of the block]`, of blocks [begin, end).
  void (*weights)(
      const Element* grad, const Element* x, float* grad_weights, float* grad_bias, const GroupedSizes& sizes,
      int64_t begin, int64_t end);
};

BURNLIKE_KERNELS(PerFloatOrBFloat16<GroupedKernels>, grouped_kernels)

}  // namespace burnlike::cpu
