// The kernels of convolutions of 3 x 3 by tiles: their bodies are in convolution_3x3.inl.
#pragma once

#include <cstdint>

#include "burnlike/element.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Images `[count, height, width, channels]`, contiguous, in tiles of `tile` x `tile` results.
struct TiledImages {
  int64_t height, width, channels;
  int64_t down, right;  // tiles of an image
};

// Tiles of numbers before or behind the products: `[tile + 2, tile + 2]` places, `stride` values apart, each with a row
// of channels for each tile.
struct TilePlaces {
  float* data;
  int64_t stride;
};

// sums = x W, or sums += x W, for `rows` rows of x: x[row * x_row + index * x_step] over `depth` indices, of weights
// `[depth, columns]` in panels of `panel` columns, or in rows that are `weight_row` apart.
struct TileProduct {
  const float* x;
  int64_t x_row, x_step;
  const float* weights;
  int64_t weight_row;  // 0: in panels
  float* sums;
  int64_t rows, depth, columns;
  bool adds;
};

// `Element` is that of images, weights and results; tiles are in float32.
template <class Element>
struct Convolution3x3Kernels {
  // The weight `[channels, channels_in, 3, 3]` as `[place, panel, channel of the input, channel of the result]`, of
  // input channels [begin, end). `transposed`: of the convolution that is the gradient of one with this weight.
  void (*pack)(
      const Element* weight, float* packed, int64_t channels, int64_t channels_in, bool transposed, int64_t begin,
      int64_t end);

  // Tiles [begin, end) of x with a border of one, transformed, into rows 0 to end - begin.
  void (*spread)(const Element* x, const TiledImages& images, const TilePlaces& tiles, int64_t begin, int64_t end);

  // The same of the gradient of results.
  void (*spread_grad)(
      const Element* grad, const TiledImages& images, const TilePlaces& tiles, int64_t begin, int64_t end);

  void (*product)(const TileProduct&);

  // The results of tiles [begin, end).
  void (*gather)(const TilePlaces& tiles, const TiledImages& images, Element* y, int64_t begin, int64_t end);

  // The gradient of the weight `[channels, channels_in, 3, 3]` of `[place, channels_in, channels]`, of channels
  // [begin, end), which are multiples of 16.
  void (*gather_weight)(
      const float* products, Element* grad_weight, int64_t channels, int64_t channels_in, int64_t begin, int64_t end);
};

BURNLIKE_KERNELS(PerFloatOrBFloat16<Convolution3x3Kernels>, convolution_in_tiles_of_2)
BURNLIKE_KERNELS(PerFloatOrBFloat16<Convolution3x3Kernels>, convolution_in_tiles_of_4)

}  // namespace burnlike::cpu
