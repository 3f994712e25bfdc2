// Convolutions of 3 x 3 by fewer products (Winograd 1980; Lavin & Gray 2016, "Fast algorithms for convolutional neural
// networks"): of m x m results, (m + 2)^2 instead of 9 m^2. An input, a weight and their products are numbers at m + 2
// points of a polynomial, in both directions.
//
// The points are 0, 1, -1 and infinity for m = 2, and 0, 1, -1, 1/2, -2 and infinity for m = 4, by which less is lost
// than by 2 and -2 (Barabasz, Anderson, Soodhalter & Gregg 2020, "Error analysis and improving the accuracy of Winograd
// convolution for deep neural networks").

namespace {

template <int kTile>
struct Points;

// Each function reads values that are one apart, and writes them `stride` apart.
template <>
struct Points<2> {
  static constexpr int kCount = 4;
  static constexpr float kWeights[kCount][3] = {{1, 0, 0}, {0.5F, 0.5F, 0.5F}, {0.5F, -0.5F, 0.5F}, {0, 0, 1}};

  BURNLIKE_INLINE static void input(const FloatVector* x, FloatVector* out, int stride) {
    out[0] = x[0] - x[2];
    out[stride] = x[1] + x[2];
    out[2 * stride] = x[2] - x[1];
    out[3 * stride] = x[3] - x[1];
  }
  BURNLIKE_INLINE static void result(const FloatVector* products, FloatVector* out, int stride) {
    out[0] = products[0] + products[1] + products[2];
    out[stride] = products[1] - products[2] + products[3];
  }
  BURNLIKE_INLINE static void grad(const FloatVector* y, FloatVector* out, int stride) {
    out[0] = y[0];
    out[stride] = y[0] + y[1];
    out[2 * stride] = y[0] - y[1];
    out[3 * stride] = y[1];
  }
};

template <>
struct Points<4> {
  static constexpr int kCount = 6;
  static constexpr float kThird = 1.0F / 3, kFifteenth = 1.0F / 15;
  static constexpr float kWeights[kCount][3] = {
      {1, 0, 0},
      {kThird, kThird, kThird},
      {-kThird, kThird, -kThird},
      {-16 * kFifteenth, -8 * kFifteenth, -4 * kFifteenth},
      {kFifteenth, -2 * kFifteenth, 4 * kFifteenth},
      {0, 0, 1}};

  BURNLIKE_INLINE static void input(const FloatVector* x, FloatVector* out, int stride) {
    out[0] = x[0] - 1.5F * (x[1] - x[3]) - 2.0F * x[2] + x[4];
    out[stride] = 0.5F * x[2] - x[1] + 2.5F * x[3] + x[4];
    out[2 * stride] = x[1] - 2.5F * x[2] + 0.5F * x[3] + x[4];
    out[3 * stride] = 2.0F * (x[3] - x[1]) - x[2] + x[4];
    out[4 * stride] = 0.5F * (x[1] - x[3]) - x[2] + x[4];
    out[5 * stride] = x[1] - 1.5F * (x[2] - x[4]) - 2.0F * x[3] + x[5];
  }
  BURNLIKE_INLINE static void result(const FloatVector* products, FloatVector* out, int stride) {
    const FloatVector even = products[1] + products[2];
    const FloatVector odd = products[1] - products[2];
    out[0] = products[0] + even + products[3] + products[4];
    out[stride] = odd + 0.5F * products[3] - 2.0F * products[4];
    out[2 * stride] = even + 0.25F * products[3] + 4.0F * products[4];
    out[3 * stride] = odd + 0.125F * products[3] - 8.0F * products[4] + products[5];
  }
  BURNLIKE_INLINE static void grad(const FloatVector* y, FloatVector* out, int stride) {
    const FloatVector even = y[0] + y[2];
    const FloatVector odd = y[1] + y[3];
    out[0] = y[0];
    out[stride] = even + odd;
    out[2 * stride] = even - odd;
    out[3 * stride] = y[0] + 0.5F * y[1] + 0.25F * y[2] + 0.125F * y[3];
    out[4 * stride] = y[0] - 2.0F * y[1] + 4.0F * y[2] - 8.0F * y[3];
    out[5 * stride] = y[3];
  }
};

// So many rows and vectors of sums stay in registers, beside the vectors of one row of the weight.
constexpr int kTileRows = kVector == 16 ? 6 : 3;
constexpr int kTileVectors = 4;
constexpr int64_t kTilePanel = kTileVectors * kVector;

inline int64_t panel_width(int64_t first, int64_t columns) {
  return columns - first < kTilePanel ? columns - first : kTilePanel;
}

// The weight at `[place]` of a panel, of one channel of the input.
template <int kTile, class Element>
void pack_convolution(
    const Element* weight, float* packed, int64_t channels, int64_t channels_in, bool transposed, int64_t begin,
    int64_t end) {
  using Here = Points<kTile>;
  constexpr int kCount = Here::kCount;
  const int64_t of_input = transposed ? channels_in : 1;
  const int64_t of_result = transposed ? 1 : channels_in;
  const int64_t inputs = transposed ? channels : channels_in;
  const int64_t results = transposed ? channels_in : channels;
  for (int64_t input = begin; input < end; ++input) {
    for (int64_t first = 0; first < results; first += kVector) {
      FloatVector taps[9];
      for (int tap = 0; tap < 9; ++tap) {
        const Element* source = weight + (input * of_input + first * of_result) * 9 + (transposed ? 8 - tap : tap);
        float lanes[kVector];
        for (int lane = 0; lane < kVector; ++lane) lanes[lane] = float_of(source[lane * of_result * 9]);
        taps[tap] = load_vector(lanes);
      }
      const int64_t panel = first / kTilePanel * kTilePanel;
      float* target = packed + panel * inputs + input * panel_width(panel, results) + first - panel;
      for (int down = 0; down < kCount; ++down) {
        const float* row = Here::kWeights[down];
        FloatVector sums[3];
        for (int tap = 0; tap < 3; ++tap) {
          sums[tap] = row[0] * taps[tap] + row[1] * taps[3 + tap] + row[2] * taps[6 + tap];
        }
        for (int right = 0; right < kCount; ++right) {
          const float* column = Here::kWeights[right];
          store_vector(
              target + (down * kCount + right) * inputs * results,
              column[0] * sums[0] + column[1] * sums[1] + column[2] * sums[2]);
        }
      }
    }
  }
}

struct TilePlace {
  int64_t image, row, column;  // of the first result
};

inline TilePlace place_of(int64_t tile, int size, const TiledImages& images) {
  const int64_t within = tile % (images.down * images.right);
  return {tile / (images.down * images.right), within / images.right * size, within % images.right * size};
}

// Values `[kSide, kSide]` of an image from a place on, 0 outside of it, by `transform` in both directions.
template <int kSide, int kCount, void (*transform)(const FloatVector*, FloatVector*, int), class Element>
BURNLIKE_INLINE void spread_tile(
    const Element* image, const TiledImages& images, int64_t row, int64_t column, const TilePlaces& tiles,
    int64_t tile_row) {
  for (int64_t channel = 0; channel < images.channels; channel += kVector) {
    FloatVector halfway[kCount * kSide];
    for (int right = 0; right < kSide; ++right) {
      FloatVector values[kSide];
      const int64_t x = column + right;
      for (int down = 0; down < kSide; ++down) {
        const int64_t y = row + down;
        const bool is_inside = x >= 0 && x < images.width && y >= 0 && y < images.height;
        values[down] =
            is_inside ? load_vector(image + (y * images.width + x) * images.channels + channel) : FloatVector{};
      }
      transform(values, halfway + right, kSide);
    }
    for (int down = 0; down < kCount; ++down) {
      FloatVector values[kCount];
      transform(halfway + down * kSide, values, 1);
      for (int right = 0; right < kCount; ++right) {
        store_vector(
            tiles.data + (down * kCount + right) * tiles.stride + tile_row * images.channels + channel, values[right]);
      }
    }
  }
}

template <int kTile, class Element>
void spread_inputs(const Element* x, const TiledImages& images, const TilePlaces& tiles, int64_t begin, int64_t end) {
  constexpr int kCount = Points<kTile>::kCount;
  for (int64_t tile = begin; tile < end; ++tile) {
    const TilePlace place = place_of(tile, kTile, images);
    const Element* image = x + place.image * images.height * images.width * images.channels;
    spread_tile<kCount, kCount, Points<kTile>::input>(
        image, images, place.row - 1, place.column - 1, tiles, tile - begin);
  }
}

template <int kTile, class Element>
void spread_gradients(
    const Element* grad, const TiledImages& images, const TilePlaces& tiles, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end; ++tile) {
    const TilePlace place = place_of(tile, kTile, images);
    const Element* image = grad + place.image * images.height * images.width * images.channels;
    spread_tile<kTile, Points<kTile>::kCount, Points<kTile>::grad>(
        image, images, place.row, place.column, tiles, tile - begin);
  }
}

template <int kTile, class Element>
void gather_results(const TilePlaces& tiles, const TiledImages& images, Element* y, int64_t begin, int64_t end) {
  using Here = Points<kTile>;
  constexpr int kCount = Here::kCount;
  for (int64_t tile = begin; tile < end; ++tile) {
    const TilePlace place = place_of(tile, kTile, images);
    Element* image = y + place.image * images.height * images.width * images.channels;
    for (int64_t channel = 0; channel < images.channels; channel += kVector) {
      FloatVector halfway[kTile * kCount];
      for (int right = 0; right < kCount; ++right) {
        FloatVector products[kCount];
        for (int down = 0; down < kCount; ++down) {
          products[down] = load_vector(
              tiles.data + (down * kCount + right) * tiles.stride + (tile - begin) * images.channels + channel);
        }
        Here::result(products, halfway + right, kCount);
      }
      for (int down = 0; down < kTile && place.row + down < images.height; ++down) {
        FloatVector results[kTile];
        Here::result(halfway + down * kCount, results, 1);
        for (int right = 0; right < kTile && place.column + right < images.width; ++right) {
          const int64_t pixel = (place.row + down) * images.width + place.column + right;
          store_rounded(image + pixel * images.channels + channel, results[right]);
        }
      }
    }
  }
}

template <int kParts>
void tile_panel(const TileProduct& product, const float* weights, int64_t weight_row, float* sums) {
  const float* x = product.x;
  int64_t row = 0;
  for (; row + kTileRows <= product.rows; row += kTileRows, x += kTileRows * product.x_row) {
    vector_sums<kTileRows, kParts>(
        x, product.x_row, product.x_step, weights, weight_row, sums + row * product.columns, product.columns,
        product.depth, product.adds);
  }
  for (; row < product.rows; ++row, x += product.x_row) {
    vector_sums<1, kParts>(
        x, product.x_row, product.x_step, weights, weight_row, sums + row * product.columns, product.columns,
        product.depth, product.adds);
  }
}

void tile_product(const TileProduct& product) {
  for (int64_t first = 0; first < product.columns; first += kTilePanel) {
    const int64_t width = panel_width(first, product.columns);
    const bool in_panels = product.weight_row == 0;
    const float* weights = product.weights + (in_panels ? first * product.depth : first);
    const int64_t weight_row = in_panels ? width : product.weight_row;
    float* sums = product.sums + first;
    switch (width / kVector) {
      case 4:
        tile_panel<4>(product, weights, weight_row, sums);
        break;
      case 3:
        tile_panel<3>(product, weights, weight_row, sums);
        break;
      case 2:
        tile_panel<2>(product, weights, weight_row, sums);
        break;
      default:
        tile_panel<1>(product, weights, weight_row, sums);
    }
  }
}

template <int kTile, class Element>
void gather_weights(
    const float* products, Element* grad_weight, int64_t channels, int64_t channels_in, int64_t begin, int64_t end) {
  using Here = Points<kTile>;
  constexpr int kCount = Here::kCount;
  for (int64_t first = begin; first < end; first += kVector) {
    for (int64_t input = 0; input < channels_in; ++input) {
      FloatVector halfway[3][kCount];
      for (int right = 0; right < kCount; ++right) {
        FloatVector sums[3] = {};
        for (int down = 0; down < kCount; ++down) {
          const FloatVector value =
              load_vector(products + ((down * kCount + right) * channels_in + input) * channels + first);
          for (int tap = 0; tap < 3; ++tap) sums[tap] += Here::kWeights[down][tap] * value;
        }
        for (int tap = 0; tap < 3; ++tap) halfway[tap][right] = sums[tap];
      }
      for (int down = 0; down < 3; ++down) {
        FloatVector sums[3] = {};
        for (int right = 0; right < kCount; ++right) {
          for (int tap = 0; tap < 3; ++tap) sums[tap] += Here::kWeights[right][tap] * halfway[down][right];
        }
        for (int tap = 0; tap < 3; ++tap) {
          Element lanes[kVector];
          store_rounded(lanes, sums[tap]);
          for (int lane = 0; lane < kVector; ++lane) {
            grad_weight[((first + lane) * channels_in + input) * 9 + down * 3 + tap] = lanes[lane];
          }
        }
      }
    }
  }
}

template <int kTile, class Element>
constexpr Convolution3x3Kernels<Element> kTiles = {pack_convolution<kTile, Element>, spread_inputs<kTile, Element>,
                                                   spread_gradients<kTile, Element>, tile_product,
                                                   gather_results<kTile, Element>,   gather_weights<kTile, Element>};

template <int kTile>
constexpr PerFloatOrBFloat16<Convolution3x3Kernels> kConvolution = {kTiles<kTile, float>, kTiles<kTile, BFloat16>};

}  // namespace

constinit const PerFloatOrBFloat16<Convolution3x3Kernels> convolution_in_tiles_of_2 = kConvolution<2>;
constinit const PerFloatOrBFloat16<Convolution3x3Kernels> convolution_in_tiles_of_4 = kConvolution<4>;
