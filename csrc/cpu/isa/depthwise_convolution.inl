// Convolutions of each channel by itself: sums over the taps that lie within the image, of channels side by side.

namespace {

constexpr int kDepthwiseVectors = 4;
constexpr int64_t kDepthwiseSpan = kDepthwiseVectors * kVector;

struct Taps {
  int64_t begin, end;
};

// Of a result, the taps whose place in the image exists.
BURNLIKE_INLINE Taps taps_of_result(int64_t place, int64_t kernel, int64_t size, const DepthwiseSizes& sizes) {
  const int64_t first = place * sizes.stride - sizes.padding;
  return {first < 0 ? -first : 0, size - first < kernel ? size - first : kernel};
}

// sums += values * tap, of vectors of channels.
template <int kVectors, class Values>
BURNLIKE_INLINE void add_tap(FloatVector* sums, const Values* values, const float* tap) {
#pragma GCC unroll 4
  for (int part = 0; part < kVectors; ++part) {
    sums[part] = multiply_add(load_vector(values + part * kVector), load_vector(tap + part * kVector), sums[part]);
  }
}

template <int kVectors, class Element>
BURNLIKE_INLINE void depthwise_result(
    const Element* image, const float* taps, const float* bias, Element* y, const DepthwiseSizes& sizes, int64_t row,
    int64_t column, Taps down, Taps right, int64_t first) {
  FloatVector sums[kVectors];
#pragma GCC unroll 4
  for (int part = 0; part < kVectors; ++part) {
    sums[part] = bias == nullptr ? FloatVector{} : load_vector(bias + first + part * kVector);
  }
  for (int64_t tap_down = down.begin; tap_down < down.end; ++tap_down) {
    const int64_t line = row * sizes.stride - sizes.padding + tap_down;
    for (int64_t tap_right = right.begin; tap_right < right.end; ++tap_right) {
      const int64_t pixel = line * sizes.width + column * sizes.stride - sizes.padding + tap_right;
      const int64_t tap = tap_down * sizes.kernel_right + tap_right;
      add_tap<kVectors>(sums, image + pixel * sizes.channels + first, taps + tap * sizes.channels + first);
    }
  }
#pragma GCC unroll 4
  for (int part = 0; part < kVectors; ++part) store_rounded(y + first + part * kVector, sums[part]);
}

template <class Element>
void depthwise_forward(
    const Element* x, const float* taps, const float* bias, Element* y, const DepthwiseSizes& sizes, int64_t begin,
    int64_t end) {
  for (int64_t line = begin; line < end; ++line) {
    const int64_t row = line % sizes.down;
    const Element* image = x + line / sizes.down * sizes.height * sizes.width * sizes.channels;
    const Taps down = taps_of_result(row, sizes.kernel_down, sizes.height, sizes);
    for (int64_t column = 0; column < sizes.right; ++column) {
      const Taps right = taps_of_result(column, sizes.kernel_right, sizes.width, sizes);
      Element* result = y + (line * sizes.right + column) * sizes.channels;
      int64_t first = 0;
      for (; first + kDepthwiseSpan <= sizes.channels; first += kDepthwiseSpan) {
        depthwise_result<kDepthwiseVectors>(image, taps, bias, result, sizes, row, column, down, right, first);
      }
      for (; first < sizes.channels; first += kVector) {
        const int64_t start = first + kVector <= sizes.channels ? first : sizes.channels - kVector;
        depthwise_result<1>(image, taps, bias, result, sizes, row, column, down, right, start);
      }
    }
  }
}

// Of a value of the image, the result that reads it by a tap, or -1.
BURNLIKE_INLINE int64_t result_of_tap(int64_t place, int64_t tap, int64_t size, const DepthwiseSizes& sizes) {
  const int64_t moved = place + sizes.padding - tap;
  if (moved < 0 || moved % sizes.stride != 0) return -1;
  return moved / sizes.stride < size ? moved / sizes.stride : -1;
}

template <int kVectors, class Element>
BURNLIKE_INLINE void depthwise_gradient(
    const Element* grads, const float* taps, Element* grad_x, const DepthwiseSizes& sizes, int64_t row, int64_t column,
    int64_t first) {
  FloatVector sums[kVectors] = {};
  for (int64_t tap_down = 0; tap_down < sizes.kernel_down; ++tap_down) {
    const int64_t line = result_of_tap(row, tap_down, sizes.down, sizes);
    if (line < 0) continue;
    for (int64_t tap_right = 0; tap_right < sizes.kernel_right; ++tap_right) {
      const int64_t place = result_of_tap(column, tap_right, sizes.right, sizes);
      if (place < 0) continue;
      const int64_t tap = tap_down * sizes.kernel_right + tap_right;
      const Element* grad = grads + (line * sizes.right + place) * sizes.channels;
      add_tap<kVectors>(sums, grad + first, taps + tap * sizes.channels + first);
    }
  }
#pragma GCC unroll 4
  for (int part = 0; part < kVectors; ++part) store_rounded(grad_x + first + part * kVector, sums[part]);
}

template <class Element>
void depthwise_backward(
    const Element* grad, const float* taps, Element* grad_x, const DepthwiseSizes& sizes, int64_t begin, int64_t end) {
  for (int64_t line = begin; line < end; ++line) {
    const int64_t row = line % sizes.height;
    const Element* grads = grad + line / sizes.height * sizes.down * sizes.right * sizes.channels;
    for (int64_t column = 0; column < sizes.width; ++column) {
      Element* result = grad_x + (line * sizes.width + column) * sizes.channels;
      int64_t first = 0;
      for (; first + kDepthwiseSpan <= sizes.channels; first += kDepthwiseSpan) {
        depthwise_gradient<kDepthwiseVectors>(grads, taps, result, sizes, row, column, first);
      }
      for (; first < sizes.channels; first += kVector) {
        const int64_t start = first + kVector <= sizes.channels ? first : sizes.channels - kVector;
        depthwise_gradient<1>(grads, taps, result, sizes, row, column, start);
      }
    }
  }
}

// So many taps side by side have their sums in registers.
constexpr int64_t kTapsAtOnce = 8;

// The gradients of taps [begin, end) of a row of the kernel, of a vector of channels; the sums of images are added to
// each other, and so lose fewer digits than one long sum.
template <class Element>
void depthwise_weights_of_row(
    const Element* grad, const Element* x, float* grad_taps, const DepthwiseSizes& sizes, int64_t tap_down,
    int64_t begin, int64_t end, int64_t first) {
  FloatVector totals[kTapsAtOnce] = {};
  for (int64_t image = 0; image < sizes.count; ++image) {
    FloatVector sums[kTapsAtOnce] = {};
    const Element* values = x + image * sizes.height * sizes.width * sizes.channels + first;
    const Element* grads = grad + image * sizes.down * sizes.right * sizes.channels + first;
    for (int64_t row = 0; row < sizes.down; ++row) {
      const int64_t line = row * sizes.stride - sizes.padding + tap_down;
      if (line < 0 || line >= sizes.height) continue;
      for (int64_t column = 0; column < sizes.right; ++column) {
        const FloatVector of_result = load_vector(grads + (row * sizes.right + column) * sizes.channels);
        const int64_t start = column * sizes.stride - sizes.padding;
        const Element* pixels = values + (line * sizes.width + start) * sizes.channels;
#pragma GCC unroll 8
        for (int64_t tap = 0; tap < kTapsAtOnce; ++tap) {
          const int64_t place = start + begin + tap;
          if (begin + tap < end && place >= 0 && place < sizes.width) {
            sums[tap] = multiply_add(load_vector(pixels + (begin + tap) * sizes.channels), of_result, sums[tap]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int64_t tap = 0; tap < kTapsAtOnce; ++tap) totals[tap] += sums[tap];
  }
#pragma GCC unroll 8
  for (int64_t tap = 0; tap < kTapsAtOnce; ++tap) {
    if (begin + tap < end) {
      store_vector(grad_taps + (tap_down * sizes.kernel_right + begin + tap) * sizes.channels + first, totals[tap]);
    }
  }
}

template <class Element>
void depthwise_weights(
    const Element* grad, const Element* x, float* grad_taps, float* grad_bias, const DepthwiseSizes& sizes,
    int64_t begin, int64_t end) {
  const int64_t groups = sizes.channels / kDepthwiseChannels;
  const int64_t last = end == groups ? sizes.channels : end * kDepthwiseChannels;
  for (int64_t place = begin * kDepthwiseChannels; place < last; place += kVector) {
    const int64_t first = place + kVector <= sizes.channels ? place : sizes.channels - kVector;
    for (int64_t tap_down = 0; tap_down < sizes.kernel_down; ++tap_down) {
      for (int64_t tap = 0; tap < sizes.kernel_right; tap += kTapsAtOnce) {
        const int64_t behind = tap + kTapsAtOnce < sizes.kernel_right ? tap + kTapsAtOnce : sizes.kernel_right;
        depthwise_weights_of_row(grad, x, grad_taps, sizes, tap_down, tap, behind, first);
      }
    }
    FloatVector total = {};
    for (int64_t image = 0; image < sizes.count; ++image) {
      FloatVector sum = {};
      const int64_t pixels = sizes.down * sizes.right;
      for (int64_t pixel = image * pixels; pixel < (image + 1) * pixels; ++pixel) {
        sum += load_vector(grad + pixel * sizes.channels + first);
      }
      total += sum;
    }
    store_vector(grad_bias + first, total);
  }
}

template <class Element>
constexpr DepthwiseKernels<Element> kDepthwise = {
    depthwise_forward<Element>, depthwise_backward<Element>, depthwise_weights<Element>};

}  // namespace

constinit const PerFloatOrBFloat16<DepthwiseKernels> depthwise_kernels = {kDepthwise<float>, kDepthwise<BFloat16>};
