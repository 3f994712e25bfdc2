// Convolutions in groups of channels: sums over the taps that lie within the image, of vectors of results side by side.

namespace {

// How the inputs of a vector of results lie: each result has one, a vector has several groups, a group has whole
// vectors, or each half of a vector has a group.
enum class Inputs : uint8_t { kEach, kSeveral, kWhole, kHalves };

// The first input of each lane's group, within a vector that has several.
BURNLIKE_INLINE IntVector first_inputs(int64_t group) {
  IntVector lanes;
  for (int lane = 0; lane < kVector; ++lane) lanes[lane] = static_cast<int>(lane / group * group);
  return lanes;
}

BURNLIKE_INLINE FloatVector shuffled(FloatVector values, IntVector lanes) {
#if defined(BURNLIKE_FMA_512)
  // With a mask of all lanes: without one, GCC 12 warns of lanes that were never written.
  return FloatVector(_mm512_maskz_permutexvar_ps(0xFFFF, __m512i(lanes), __m512(values)));
#elif defined(BURNLIKE_FMA_256)
  return FloatVector(_mm256_permutevar8x32_ps(__m256(values), __m256i(lanes)));
#else
  FloatVector result;
  for (int lane = 0; lane < kVector; ++lane) result[lane] = values[lanes[lane]];
  return result;
#endif
}

// The inputs of a vector of results from channel `start` on.
template <Inputs kInputs>
struct VectorInputs {
  int64_t start;
  int64_t upper;  // of the upper half of kHalves
  IntVector lanes;

  BURNLIKE_INLINE static VectorInputs of(int64_t start, int64_t group) {
    VectorInputs inputs;
    const bool is_whole = kInputs == Inputs::kWhole || kInputs == Inputs::kHalves;
    inputs.start = is_whole ? start / group * group : start;
    inputs.upper = (start + kVector / 2) / group * group;
    inputs.lanes = kInputs == Inputs::kSeveral ? first_inputs(group) : IntVector{};
    return inputs;
  }

  // The values of all channels where one vector has them.
  template <class Element>
  BURNLIKE_INLINE FloatVector loaded(const Element* pixel) const {
    return kInputs == Inputs::kSeveral ? load_vector(pixel + start) : FloatVector{};
  }

  // Those that are `index` behind the first of each group.
  template <class Element>
  BURNLIKE_INLINE FloatVector at(const Element* pixel, FloatVector loaded, int64_t index) const {
    if constexpr (kInputs == Inputs::kEach) return load_vector(pixel + start);
    if constexpr (kInputs == Inputs::kSeveral) return shuffled(loaded, lanes + static_cast<int>(index));
    const FloatVector lower_values = all_of(float_of(pixel[start + index]));
#if defined(BURNLIKE_FMA_512)
    if constexpr (kInputs == Inputs::kHalves) {
      const FloatVector upper_values = all_of(float_of(pixel[upper + index]));
      return FloatVector(_mm512_mask_blend_ps(0xFF00, __m512(lower_values), __m512(upper_values)));
    }
#endif
    return lower_values;
  }
};

// In one direction, the taps of a result that lie within what is read: `count` from `tap` on, each `step` behind the
// one before, whose places are `by` apart.
struct Reach {
  int64_t tap, count, step, place, by;
};

BURNLIKE_INLINE Reach reach_of_result(int64_t place, int64_t kernel, int64_t size, const GroupedSizes& sizes) {
  const int64_t first = place * sizes.stride - sizes.padding;
  const int64_t begin = first < 0 ? -first : 0;
  const int64_t end = size - first < kernel ? size - first : kernel;
  return {begin, end - begin, 1, first + begin, 1};
}

// Of a value of the image, the taps by which results read it: the result at `place` by tap `moved - place * stride`. So
// taps are a stride apart from the remainder on, or from that of the last result on.
BURNLIKE_INLINE Reach reach_of_input(int64_t place, int64_t kernel, int64_t size, const GroupedSizes& sizes) {
  const int64_t moved = place + sizes.padding;
  int64_t tap = moved % sizes.stride;
  const int64_t beyond = (moved - tap) / sizes.stride - (size - 1);
  if (beyond > 0) tap += beyond * sizes.stride;
  const int64_t largest = (kernel - 1 < moved ? kernel - 1 : moved) - tap;
  return {tap, largest < 0 ? 0 : largest / sizes.stride + 1, sizes.stride, (moved - tap) / sizes.stride, -1};
}

// What a pass reads and writes: images or results, `[count, down, right, channels]`.
template <class Element>
struct GroupedPass {
  const Element* x;
  int64_t down, right;
  const float* weights;
  const float* bias;
  Element* y;
  int64_t y_down, y_right;
};

// kVectors vectors of results of kImages images at a place.
template <Inputs kInputs, int kImages, int kVectors, class Element>
BURNLIKE_INLINE void grouped_sums(
    const GroupedPass<Element>& pass, const GroupedSizes& sizes, int64_t image, int64_t place, Reach down, Reach right,
    int64_t vector) {
  constexpr int kPerBlock = kGroupedBlock / kVector;
  const int64_t image_size = pass.down * pass.right * sizes.channels;
  const Element* x = pass.x + image * image_size;
  int64_t starts[kVectors];
  const float* weights[kVectors];
  VectorInputs<kInputs> inputs[kVectors];
  FloatVector sums[kImages][kVectors];
#pragma GCC unroll 4
  for (int part = 0; part < kVectors; ++part) {
    const int64_t block = (vector + part) / kPerBlock, behind = (vector + part) % kPerBlock * kVector;
    starts[part] = start_of_block(block, sizes) + behind;
    weights[part] = pass.weights + block * sizes.taps() * sizes.group * kGroupedBlock + behind;
    inputs[part] = VectorInputs<kInputs>::of(starts[part], sizes.group);
    const FloatVector sum = pass.bias == nullptr ? FloatVector{} : load_vector(pass.bias + starts[part]);
#pragma GCC unroll 4
    for (int one = 0; one < kImages; ++one) sums[one][part] = sum;
  }
  for (int64_t row = 0; row < down.count; ++row) {
    const int64_t line = (down.place + row * down.by) * pass.right;
    for (int64_t column = 0; column < right.count; ++column) {
      const Element* pixel = x + (line + right.place + column * right.by) * sizes.channels;
      const int64_t tap = (down.tap + row * down.step) * sizes.kernel_right + right.tap + column * right.step;
      FloatVector loaded[kImages][kVectors];
#pragma GCC unroll 4
      for (int one = 0; one < kImages; ++one) {
#pragma GCC unroll 4
        for (int part = 0; part < kVectors; ++part) loaded[one][part] = inputs[part].loaded(pixel + one * image_size);
      }
      const int64_t group = kInputs == Inputs::kEach ? 1 : sizes.group;
      for (int64_t index = 0; index < group; ++index) {
#pragma GCC unroll 4
        for (int part = 0; part < kVectors; ++part) {
          const FloatVector weight = load_vector(weights[part] + (tap * group + index) * kGroupedBlock);
#pragma GCC unroll 4
          for (int one = 0; one < kImages; ++one) {
            const FloatVector values = inputs[part].at(pixel + one * image_size, loaded[one][part], index);
            sums[one][part] = multiply_add(values, weight, sums[one][part]);
          }
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int one = 0; one < kImages; ++one) {
    Element* y = pass.y + ((image + one) * pass.y_down * pass.y_right + place) * sizes.channels;
#pragma GCC unroll 4
    for (int part = 0; part < kVectors; ++part) store_rounded(y + starts[part], sums[one][part]);
  }
}

// All channels of kImages images at a place.
template <Inputs kInputs, int kImages, class Element>
BURNLIKE_INLINE void grouped_place(
    const GroupedPass<Element>& pass, const GroupedSizes& sizes, int64_t image, int64_t place, Reach down,
    Reach right) {
  constexpr int kVectors = kImages == 1 ? 4 : 2;  // so many sums that none waits for the one before
  const int64_t vectors = grouped_blocks(sizes) * (kGroupedBlock / kVector);
  int64_t vector = 0;
  for (; vector + kVectors <= vectors; vector += kVectors) {
    grouped_sums<kInputs, kImages, kVectors>(pass, sizes, image, place, down, right, vector);
  }
  for (; vector < vectors; ++vector) {
    grouped_sums<kInputs, kImages, 1>(pass, sizes, image, place, down, right, vector);
  }
}

template <Inputs kInputs, Reach (*reach)(int64_t, int64_t, int64_t, const GroupedSizes&), class Element>
void grouped_rows(const GroupedPass<Element>& pass, const GroupedSizes& sizes, int64_t begin, int64_t end) {
  for (int64_t line = begin; line < end; ++line) {
    const int64_t row = line % pass.y_down, first = line / pass.y_down * kImagesAtOnce;
    const Reach down = reach(row, sizes.kernel_down, pass.down, sizes);
    for (int64_t column = 0; column < pass.y_right; ++column) {
      const Reach right = reach(column, sizes.kernel_right, pass.right, sizes);
      const int64_t place = row * pass.y_right + column;
      if (first + kImagesAtOnce <= sizes.count) {
        grouped_place<kInputs, kImagesAtOnce>(pass, sizes, first, place, down, right);
        continue;
      }
      for (int64_t image = first; image < sizes.count; ++image) {
        grouped_place<kInputs, 1>(pass, sizes, image, place, down, right);
      }
    }
  }
}

template <Reach (*reach)(int64_t, int64_t, int64_t, const GroupedSizes&), class Element>
void grouped_pass(const GroupedPass<Element>& pass, const GroupedSizes& sizes, int64_t begin, int64_t end) {
  if (sizes.group == 1) return grouped_rows<Inputs::kEach, reach>(pass, sizes, begin, end);
  if (sizes.group < kVector) return grouped_rows<Inputs::kSeveral, reach>(pass, sizes, begin, end);
  if (sizes.group % kVector == 0) return grouped_rows<Inputs::kWhole, reach>(pass, sizes, begin, end);
  return grouped_rows<Inputs::kHalves, reach>(pass, sizes, begin, end);
}

template <class Element>
void grouped_forward(
    const Element* x, const float* weights, const float* bias, Element* y, const GroupedSizes& sizes, int64_t begin,
    int64_t end) {
  grouped_pass<reach_of_result, Element>(
      {x, sizes.height, sizes.width, weights, bias, y, sizes.down, sizes.right}, sizes, begin, end);
}

template <class Element>
void grouped_backward(
    const Element* grad, const float* weights, Element* grad_x, const GroupedSizes& sizes, int64_t begin, int64_t end) {
  grouped_pass<reach_of_input, Element>(
      {grad, sizes.down, sizes.right, weights, nullptr, grad_x, sizes.height, sizes.width}, sizes, begin, end);
}

// So many sums stay in registers: of kCount inputs of a group by taps side by side.
constexpr int64_t kWeightSums = 8;

// The gradients of taps of a row of the kernel from `begin` on, of a vector of channels; the sums of images are added
// to each other, and so lose fewer digits than one long sum.
template <Inputs kInputs, int kCount, class Element>
void grouped_weights_of_row(
    const Element* grad, const Element* x, float* target, const GroupedSizes& sizes, int64_t tap_down, int64_t begin,
    int64_t input, int64_t start) {
  constexpr int64_t kTaps = kWeightSums / kCount;
  const auto inputs = VectorInputs<kInputs>::of(start, sizes.group);
  FloatVector totals[kTaps][kCount] = {};
  for (int64_t image = 0; image < sizes.count; ++image) {
    FloatVector sums[kTaps][kCount] = {};
    const Element* values = x + image * sizes.height * sizes.width * sizes.channels;
    const Element* grads = grad + image * sizes.down * sizes.right * sizes.channels + start;
    for (int64_t row = 0; row < sizes.down; ++row) {
      const int64_t line = row * sizes.stride - sizes.padding + tap_down;
      if (line < 0 || line >= sizes.height) continue;
      for (int64_t column = 0; column < sizes.right; ++column) {
        const FloatVector of_result = load_vector(grads + (row * sizes.right + column) * sizes.channels);
        const int64_t first = column * sizes.stride - sizes.padding + begin;
#pragma GCC unroll 8
        for (int64_t tap = 0; tap < kTaps; ++tap) {
          const int64_t place = first + tap;
          if (begin + tap >= sizes.kernel_right || place < 0 || place >= sizes.width) continue;
          const Element* pixel = values + (line * sizes.width + place) * sizes.channels;
          const FloatVector loaded = inputs.loaded(pixel);
#pragma GCC unroll 8
          for (int64_t one = 0; one < kCount; ++one) {
            sums[tap][one] = multiply_add(inputs.at(pixel, loaded, input + one), of_result, sums[tap][one]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int64_t tap = 0; tap < kTaps; ++tap) {
#pragma GCC unroll 8
      for (int64_t one = 0; one < kCount; ++one) totals[tap][one] += sums[tap][one];
    }
  }
  for (int64_t tap = 0; tap < kTaps && begin + tap < sizes.kernel_right; ++tap) {
    const int64_t index = (tap_down * sizes.kernel_right + begin + tap) * sizes.group + input;
    for (int64_t one = 0; one < kCount; ++one) store_vector(target + (index + one) * kGroupedBlock, totals[tap][one]);
  }
}

template <Inputs kInputs, int kCount, class Element>
void grouped_weights_of_vector(
    const Element* grad, const Element* x, float* target, const GroupedSizes& sizes, int64_t start) {
  for (int64_t tap_down = 0; tap_down < sizes.kernel_down; ++tap_down) {
    for (int64_t tap = 0; tap < sizes.kernel_right; tap += kWeightSums / kCount) {
      for (int64_t input = 0; input < sizes.group; input += kCount) {
        grouped_weights_of_row<kInputs, kCount>(grad, x, target, sizes, tap_down, tap, input, start);
      }
    }
  }
}

template <class Element>
void grouped_weights(
    const Element* grad, const Element* x, float* grad_weights, float* grad_bias, const GroupedSizes& sizes,
    int64_t begin, int64_t end) {
  constexpr Inputs kOfFour = kVector == 4 ? Inputs::kWhole : Inputs::kSeveral;
  for (int64_t place = begin * kGroupedBlock; place < end * kGroupedBlock; place += kVector) {
    const int64_t block = place / kGroupedBlock, behind = place % kGroupedBlock;
    const int64_t start = start_of_block(block, sizes) + behind;
    float* target = grad_weights + block * sizes.taps() * sizes.group * kGroupedBlock + behind;
    if (sizes.group == 1) {
      grouped_weights_of_vector<Inputs::kEach, 1>(grad, x, target, sizes, start);
    } else if (sizes.group == 2) {
      grouped_weights_of_vector<Inputs::kSeveral, 2>(grad, x, target, sizes, start);
    } else if (sizes.group == 4) {
      grouped_weights_of_vector<kOfFour, 4>(grad, x, target, sizes, start);
    } else if (sizes.group < kVector) {
      grouped_weights_of_vector<Inputs::kSeveral, 8>(grad, x, target, sizes, start);
    } else if (sizes.group % kVector == 0) {
      grouped_weights_of_vector<Inputs::kWhole, 8>(grad, x, target, sizes, start);
    } else {
      grouped_weights_of_vector<Inputs::kHalves, 8>(grad, x, target, sizes, start);
    }
    FloatVector total = {};
    for (int64_t image = 0; image < sizes.count; ++image) {
      FloatVector sum = {};
      const int64_t pixels = sizes.down * sizes.right;
      for (int64_t pixel = image * pixels; pixel < (image + 1) * pixels; ++pixel) {
        sum += load_vector(grad + pixel * sizes.channels + start);
      }
      total += sum;
    }
    store_vector(grad_bias + place, total);
  }
}

template <class Element>
constexpr GroupedKernels<Element> kGrouped = {
    grouped_forward<Element>, grouped_backward<Element>, grouped_weights<Element>};

}  // namespace

constinit const PerFloatOrBFloat16<GroupedKernels> grouped_kernels = {kGrouped<float>, kGrouped<BFloat16>};
