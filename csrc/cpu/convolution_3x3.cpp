// Convolutions of 3 x 3 with a border of zeros on the CPU, by tiles: checks, memory and threads. The arithmetic is in
// isa/convolution_3x3.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "burnlike/calls.h"
#include "burnlike/tensors.h"
#include "isa/convolution_3x3.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"convolution_3x3"};
CallCounter backward_calls{"convolution_3x3_backward"};

// Channels come in whole vectors of any instruction set.
constexpr int64_t kChannels = 16;
// Values of a block of tiles before and behind its products, that stay in a core's own cache.
constexpr int64_t kNearValues = 150'000;
// The same for all cores.
constexpr int64_t kSharedValues = 500'000;
// Tiles that a block has at least, or the weight would be read too often.
constexpr int64_t kFewestTiles = 24;
// The same where sums over the tiles of a block are added to those before.
constexpr int64_t kFewestSummed = 16;

void check_images(const Tensor& x) {
  const ElementKind kind = element_kind(x);
  STD_TORCH_CHECK(
      x.is_cpu() && x.dim() == 4 && (kind == ElementKind::kFloat32 || kind == ElementKind::kBFloat16) &&
          x.size(3) % kChannels == 0,
      "convolution_3x3: expected images [n, h, w, c] in float32 or bfloat16, with c a multiple of 16");
}

TiledImages tiled(const Tensor& x, int64_t channels, int64_t tile) {
  return {x.size(1), x.size(2), channels, (x.size(1) + tile - 1) / tile, (x.size(2) + tile - 1) / tile};
}

int64_t tiles_of(const Tensor& x, int64_t tile) {
  const TiledImages images = tiled(x, 0, tile);
  return x.size(0) * images.down * images.right;
}

// The size of tiles by which fewer products are formed. That a weight is transformed costs as much as so many tiles.
int64_t tile_of(const Tensor& x) {
  constexpr int64_t kTilesOfWeight = 64;
  const int64_t products_2 = 16 * (tiles_of(x, 2) + kTilesOfWeight);
  const int64_t products_4 = 36 * (tiles_of(x, 4) + kTilesOfWeight);
  return products_4 < products_2 ? 4 : 2;
}

template <class Element>
const Convolution3x3Kernels<Element>& kernels_of(int64_t tile, Element element) {
  return (tile == 4 ? convolution_in_tiles_of_4() : convolution_in_tiles_of_2())(element);
}

// Two things that a call needs memory for: at once, and in one thread.
enum class Purpose : uint8_t { kWeight, kTiles };

struct Kept {
  std::unique_ptr<float[]> values;
  int64_t count = 0;
};

thread_local Kept kept_memory[2];

// Memory of the thread, kept for its next call: to get it from the system takes as long as the products. More than
// kMostKept values are given back.
class Floats {
 public:
  Floats(Purpose purpose, int64_t count) : kept_(kept_memory[static_cast<int>(purpose)]) {
    if (kept_.count >= count) return;
    kept_ = {};  // before more is asked for, which may fail
    kept_.values = std::make_unique_for_overwrite<float[]>(count);
    kept_.count = count;
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() {
    constexpr int64_t kMostKept = 4'000'000;
    if (kept_.count > kMostKept) kept_ = {};
  }

  float* data() const { return kept_.values.get(); }

 private:
  Kept& kept_;
};

// Of blocks of about `size` tiles, as many as threads share evenly.
int64_t even_blocks(int64_t tiles, int64_t size) {
  const int64_t blocks = (tiles + size - 1) / size;
  return std::min(tiles, (blocks + 1) / 2 * 2);
}

Tensor convolution_3x3(const Tensor& x_any, const Tensor& weight_any, bool transposed) {
  forward_calls.add();
  check_images(x_any);
  const ElementKind kind = element_kind(x_any);
  STD_TORCH_CHECK(
      weight_any.is_cpu() && weight_any.dim() == 4 && element_kind(weight_any) == kind && weight_any.size(2) == 3 &&
          weight_any.size(3) == 3 && weight_any.size(transposed ? 0 : 1) == x_any.size(3) &&
          weight_any.size(transposed ? 1 : 0) % kChannels == 0,
      "convolution_3x3: expected a weight [channels, channels_in, 3, 3] of the images' dtype that fits them");
  const Tensor x = as_contiguous(x_any);
  const Tensor weight = as_contiguous(weight_any);
  const int64_t channels_in = x.size(3);
  const int64_t channels = weight.size(transposed ? 1 : 0);
  const Tensor y = new_contiguous({x.size(0), x.size(1), x.size(2), channels}, kind, x);
  if (y.numel() == 0) return y;
  const int64_t tile = tile_of(x);
  const int64_t places = (tile + 2) * (tile + 2);
  const TiledImages inputs = tiled(x, channels_in, tile);
  const TiledImages results = tiled(x, channels, tile);
  const int64_t tiles = tiles_of(x, tile);
  const int64_t of_near = kNearValues / (places * (channels_in + channels));
  const int64_t blocks = even_blocks(tiles, std::max(of_near, kFewestTiles));
  const int64_t most = (tiles + blocks - 1) / blocks;
  // Places a power of two apart would share the same few lines of the cache.
  const int64_t x_stride = most * channels_in + kChannels;
  const int64_t y_stride = most * channels + kChannels;
  const Floats packed(Purpose::kWeight, places * channels_in * channels);
  float* packed_data = packed.data();
  with_float_or_bfloat16(kind, [&](auto element) {
    using Element = decltype(element);
    const auto& kernels = kernels_of(tile, element);
    const Element* x_data = data_of<Element>(x);
    const Element* weight_data = data_of<Element>(weight);
    Element* y_data = mutable_data_of<Element>(y);
    for_rows(channels_in, 16 * channels, [&](int64_t begin, int64_t end) {
      kernels.pack(weight_data, packed_data, weight.size(0), weight.size(1), transposed, begin, end);
    });
    torch::stable::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
      const Floats memory(Purpose::kTiles, places * (x_stride + y_stride));
      const TilePlaces in{memory.data(), x_stride};
      const TilePlaces out{memory.data() + places * x_stride, y_stride};
      for (int64_t block = first; block < last; ++block) {
        const int64_t begin = tiles * block / blocks;
        const int64_t end = tiles * (block + 1) / blocks;
        kernels.spread(x_data, inputs, in, begin, end);
        for (int64_t place = 0; place < places; ++place) {
          const float* weights = packed_data + place * channels_in * channels;
          kernels.product(
              {in.data + place * in.stride, channels_in, 1, weights, 0, out.data + place * out.stride, end - begin,
               channels_in, channels, false});
        }
        kernels.gather(out, results, y_data, begin, end);
      }
    });
  });
  return y;
}

// The gradient of the weight. The blocks of tiles depend on the sizes alone, and are added in their order.
Tensor convolution_3x3_backward(const Tensor& grad_any, const Tensor& x_any) {
  backward_calls.add();
  check_images(x_any);
  check_images(grad_any);
  const ElementKind kind = element_kind(x_any);
  STD_TORCH_CHECK(element_kind(grad_any) == kind, "convolution_3x3_backward: the images have other dtypes");
  for (int64_t dim = 0; dim < 3; ++dim) {
    STD_TORCH_CHECK(grad_any.size(dim) == x_any.size(dim), "convolution_3x3_backward: the images have other sizes");
  }
  const Tensor grad = as_contiguous(grad_any);
  const Tensor x = as_contiguous(x_any);
  const int64_t channels_in = x.size(3);
  const int64_t channels = grad.size(3);
  const Tensor grad_weight = new_contiguous({channels, channels_in, 3, 3}, kind, x);
  const int64_t tile = tile_of(x);
  const int64_t tiles = tiles_of(x, tile);
  if (tiles == 0 || channels == 0 || channels_in == 0) {
    with_float_or_bfloat16(kind, [&](auto element) {
      std::fill_n(mutable_data_of<decltype(element)>(grad_weight), grad_weight.numel(), decltype(element){});
    });
    return grad_weight;
  }
  const int64_t places = (tile + 2) * (tile + 2);
  const TiledImages inputs = tiled(x, channels_in, tile);
  const TiledImages results = tiled(x, channels, tile);
  const int64_t size = std::min(std::max(kSharedValues / (places * (channels_in + channels)), kFewestSummed), tiles);
  const int64_t blocks = (tiles + size - 1) / size;
  const int64_t most = (tiles + blocks - 1) / blocks;
  const int64_t x_stride = most * channels_in + kChannels;
  const int64_t grad_stride = most * channels + kChannels;
  const Floats memory(Purpose::kTiles, places * (x_stride + grad_stride));
  float* of_x = memory.data();
  float* of_grad = of_x + places * x_stride;
  const Floats products(Purpose::kWeight, places * channels_in * channels);
  float* sums = products.data();
  with_float_or_bfloat16(kind, [&](auto element) {
    using Element = decltype(element);
    const auto& kernels = kernels_of(tile, element);
    const Element* x_data = data_of<Element>(x);
    const Element* grad_data = data_of<Element>(grad);
    Element* grad_weight_data = mutable_data_of<Element>(grad_weight);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = tiles * block / blocks;
      const int64_t end = tiles * (block + 1) / blocks;
      for_rows(end - begin, places * (channels + channels_in), [&](int64_t first, int64_t last) {
        kernels.spread(x_data, inputs, {of_x + first * channels_in, x_stride}, begin + first, begin + last);
        kernels.spread_grad(grad_data, results, {of_grad + first * channels, grad_stride}, begin + first, begin + last);
      });
      torch::stable::parallel_for(0, places, 1, [&](int64_t first, int64_t last) {
        for (int64_t place = first; place < last; ++place) {
          kernels.product(
              {of_x + place * x_stride, 1, channels_in, of_grad + place * grad_stride, channels,
               sums + place * channels_in * channels, channels_in, end - begin, channels, block > 0});
        }
      });
    }
    for_rows(channels / kChannels, kChannels * channels_in * places, [&](int64_t begin, int64_t end) {
      kernels.gather_weight(sums, grad_weight_data, channels, channels_in, begin * kChannels, end * kChannels);
    });
  });
  return grad_weight;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("convolution_3x3(Tensor x, Tensor weight, bool transposed) -> Tensor");
  library.def("convolution_3x3_backward(Tensor grad, Tensor x) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("convolution_3x3", TORCH_BOX(&burnlike::cpu::convolution_3x3));
  library.impl("convolution_3x3_backward", TORCH_BOX(&burnlike::cpu::convolution_3x3_backward));
}
