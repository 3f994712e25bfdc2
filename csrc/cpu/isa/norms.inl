// RMS and layer normalization of rows.

namespace {

// Rounded to the type of both, as the tensor that a sum would be.
template <class Element>
inline void add_values(
    const Element* __restrict__ values, const Element* __restrict__ others, Element* __restrict__ sums, int64_t count) {
  for (int64_t index = 0; index < count; ++index) {
    sums[index] = store<Element>(load(values[index]) + load(others[index]));
  }
}

// x - m, of which m is 0 in RMS normalization.
template <class Norm, class Element>
struct CenteredRow {
  using Accumulate = accumulate_t<Element>;
  const Element* x;
  Accumulate mean;

  BURNLIKE_INLINE Accumulate value(int64_t column) const {
    return Norm::kCentered ? load(x[column]) - mean : Accumulate(load(x[column]));
  }
  BURNLIKE_INLINE auto part(int64_t column) const {
    const auto part = load_vector(x + column);
    return Norm::kCentered ? part - mean : part;
  }
  BURNLIKE_INLINE auto rest(int64_t begin, int64_t end) const { return last_part(*this, begin, end); }
};

template <class Element>
inline accumulate_t<Element> mean_of(const Element* x, int64_t width) {
  RowSum<accumulate_t<Element>> sum;
  add_row(sum, CenteredRow<RmsNorm, Element>{x, 0}, width);  // of x itself
  return sum.total() / static_cast<accumulate_t<Element>>(width);
}

// Each step is done for so many rows before the next one is: of a single short row it would wait for the sums of the
// step before, which take longer than to read the row. Of more bytes the rows would not stay in the nearest cache.
constexpr int64_t kNormRows = 8;

template <class Element>
inline int64_t rows_together(int64_t width) {
  const int64_t bytes = width * static_cast<int64_t>(sizeof(Element));
  return bytes <= 1024 ? kNormRows : bytes <= 2048 ? kNormRows / 2 : 1;
}

template <class Norm, class Element>
inline void means_of(const Element* x, accumulate_t<Element>* means, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) means[row] = Norm::kCentered ? mean_of(x + row * width, width) : 0;
}

// The mean as it was summed at first is off by some of its last places; the mean of what it leaves mends that.
template <class Norm, class Accumulate>
struct CenteredSums {
  static constexpr int kTogether = kParts<Accumulate>;
  RowSum<Accumulate> squares, rests;

  BURNLIKE_INLINE CenteredSums() {}

  BURNLIKE_INLINE void add(int part, RowPart<Accumulate> centered) {
    squares.add(part, centered * centered);
    if constexpr (Norm::kCentered) rests.add(part, centered);
  }

  BURNLIKE_INLINE Accumulate rest(int64_t width) {
    return Norm::kCentered ? rests.total() / static_cast<Accumulate>(width) : Accumulate(0);
  }
};

// A row's m, and the sum of the squares of x - m.
template <class Accumulate>
struct Moments {
  Accumulate mean;
  Accumulate squares;
};

template <class Norm, class Element>
inline Moments<accumulate_t<Element>> moments_of(const Element* x, accumulate_t<Element> mean, int64_t width) {
  CenteredSums<Norm, accumulate_t<Element>> sums;
  add_row(sums, CenteredRow<Norm, Element>{x, mean}, width);
  return {mean + sums.rest(width), sums.squares.total()};
}

template <class Norm, class Element>
void norm_forward_block(const CpuNormForward<Element>& pass, int64_t begin, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  const int64_t width = pass.width, place = begin * width;
  const Accumulate* __restrict__ gamma = pass.gamma;
  const Accumulate* __restrict__ beta = pass.beta;
  const Element* block = pass.x + place;
  if (pass.residual != nullptr) {
    add_values(block, pass.residual + place, pass.sum + place, rows * width);
    block = pass.sum + place;
  }
  Accumulate means[kNormRows];
  Accumulate scales[kNormRows];
  means_of<Norm>(block, means, rows, width);
  for (int64_t row = 0; row < rows; ++row) {
    const Moments<Accumulate> moments = moments_of<Norm>(block + row * width, means[row], width);
    means[row] = moments.mean;
    scales[row] = norm_scale(moments.squares, static_cast<Accumulate>(width), pass.epsilon);
  }
  for (int64_t row = 0; row < rows; ++row) {
    const Element* __restrict__ x = block + row * width;
    Element* __restrict__ y = pass.y + place + row * width;
    const Accumulate mean = means[row], scale = scales[row];
    if (beta != nullptr) {
      for (int64_t column = 0; column < width; ++column) {
        const Accumulate output = norm_output(Accumulate(load(x[column])) - mean, gamma[column], scale);
        y[column] = store<Element>(output + beta[column]);
      }
    } else {
      for (int64_t column = 0; column < width; ++column) {
        y[column] = store<Element>(norm_output(Accumulate(load(x[column])) - mean, gamma[column], scale));
      }
    }
  }
}

template <class Norm, class Element>
void norm_forward_rows(const CpuNormForward<Element>& pass, int64_t begin, int64_t end) {
  const int64_t together = rows_together<Element>(pass.width);
  for (int64_t row = begin; row < end; row += together) {
    norm_forward_block<Norm>(pass, row, end - row < together ? end - row : together);
  }
}

// What a row's gradient of x needs of the whole row.
template <class Accumulate>
struct RowSums {
  Accumulate mean;
  Accumulate scale;
  Accumulate pull;
  Accumulate mean_slope;
};

// x - m, and the gradient by gamma.
template <class Norm, class Element>
struct GradientRow {
  using Accumulate = accumulate_t<Element>;
  struct Parts {
    RowPart<Accumulate> centered, slope;
  };
  CenteredRow<Norm, Element> x;
  ProductRow<Element, Accumulate> slope;

  BURNLIKE_INLINE Parts part(int64_t column) const { return {x.part(column), slope.part(column)}; }
  BURNLIKE_INLINE Parts rest(int64_t begin, int64_t end) const { return {x.rest(begin, end), slope.rest(begin, end)}; }
};

template <class Norm, class Element>
struct GradientSums {
  using Accumulate = accumulate_t<Element>;
  static constexpr int kTogether = Norm::kCentered || kParts<Accumulate> < 4 ? 2 : 4;  // eight sums
  CenteredSums<Norm, Accumulate> centered;
  RowSum<Accumulate> dots, slopes;

  BURNLIKE_INLINE GradientSums() {}

  BURNLIKE_INLINE void add(int part, const typename GradientRow<Norm, Element>::Parts& parts) {
    centered.add(part, parts.centered);
    dots.add(part, parts.slope * parts.centered);
    if constexpr (Norm::kCentered) slopes.add(part, parts.slope);
  }
};

// One pass for all of them, relative to the mean as it was summed at first.
template <class Norm, class Element>
inline RowSums<accumulate_t<Element>> row_sums(
    const GradientRow<Norm, Element>& row, int64_t width, accumulate_t<Element> epsilon) {
  using Accumulate = accumulate_t<Element>;
  GradientSums<Norm, Element> sums;
  add_row(sums, row, width);
  const Accumulate count = static_cast<Accumulate>(width);
  const Accumulate scale = norm_scale(sums.centered.squares.total(), count, epsilon);
  const Accumulate dot = sums.dots.total();
  if constexpr (!Norm::kCentered) return {0, scale, norm_pull(scale, dot, count), 0};
  const Accumulate rest = sums.centered.rest(width);
  const Accumulate slope = sums.slopes.total();
  return {row.x.mean + rest, scale, norm_pull(scale, dot - rest * slope, count), slope / count};
}

// A function of its own, whose parameters GCC 12 knows to be apart. The sums of the weights are read and written once
// for all of its rows, to which they are added in their order.
template <class Norm, bool kAdds, int kRows, class Element>
__attribute__((noinline)) void norm_gradients_of_rows(
    const Element* __restrict__ grad, const Element* __restrict__ grad_sum, const Element* __restrict__ x,
    const accumulate_t<Element>* __restrict__ gamma, const RowSums<accumulate_t<Element>>* __restrict__ sums,
    Element* __restrict__ grad_x, accumulate_t<Element>* __restrict__ gamma_sums,
    accumulate_t<Element>* __restrict__ beta_sums, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t column = 0; column < width; ++column) {
    Accumulate gamma_sum = gamma_sums[column];
    Accumulate beta_sum = 0;
    if constexpr (Norm::kCentered) beta_sum = beta_sums[column];
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      const int64_t place = row * width + column;
      const Accumulate centered = load(x[place]) - sums[row].mean;
      const Accumulate upper = load(grad[place]);
      Accumulate slope = upper * gamma[column];
      if constexpr (Norm::kCentered) slope -= sums[row].mean_slope;
      Accumulate total = norm_grad_x(slope, centered, sums[row].scale, sums[row].pull);
      if constexpr (kAdds) total += load(grad_sum[place]);
      grad_x[place] = store<Element>(total);
      gamma_sum += norm_grad_gamma(upper, centered, sums[row].scale);
      beta_sum += upper;
    }
    gamma_sums[column] = gamma_sum;
    if constexpr (Norm::kCentered) beta_sums[column] = beta_sum;
  }
}

template <class Norm, bool kAdds, class Element>
inline void norm_backward_block(
    const CpuNormBackward<Element>& pass, accumulate_t<Element>* weight_sums, int64_t begin, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  const int64_t width = pass.width, place = begin * width;
  const Element* grad = pass.grad + place;
  const Element* x = pass.x + place;
  Accumulate means[kNormRows];
  RowSums<Accumulate> sums[kNormRows];
  means_of<Norm>(x, means, rows, width);
  for (int64_t row = 0; row < rows; ++row) {
    const GradientRow<Norm, Element> values{{x + row * width, means[row]}, {grad + row * width, pass.gamma}};
    sums[row] = row_sums<Norm>(values, width, pass.epsilon);
  }
  const auto run = [&](auto function, int64_t row) {
    const int64_t first = row * width;
    function(
        grad + first, kAdds ? pass.grad_sum + place + first : grad, x + first, pass.gamma, sums + row,
        pass.grad_x + place + first, weight_sums, weight_sums + width, width);
  };
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) run(norm_gradients_of_rows<Norm, kAdds, 4, Element>, row);
  for (; row < rows; ++row) run(norm_gradients_of_rows<Norm, kAdds, 1, Element>, row);
}

template <class Norm, class Element>
void norm_backward_rows(const CpuNormBackward<Element>& pass, accumulate_t<Element>* sums, int64_t begin, int64_t end) {
  const int64_t together = rows_together<Element>(pass.width);
  for (int64_t row = begin; row < end; row += together) {
    const int64_t rows = end - row < together ? end - row : together;
    if (pass.grad_sum != nullptr) {
      norm_backward_block<Norm, true>(pass, sums, row, rows);
    } else {
      norm_backward_block<Norm, false>(pass, sums, row, rows);
    }
  }
}

template <class Element>
constexpr NormKernels<Element> rms_norm_functions = {
    norm_forward_rows<RmsNorm, Element>, norm_backward_rows<RmsNorm, Element>};

template <class Element>
constexpr NormKernels<Element> layer_norm_functions = {
    norm_forward_rows<LayerNorm, Element>, norm_backward_rows<LayerNorm, Element>};

}  // namespace

constinit const PerElement<NormKernels> rms_norm_kernels = BURNLIKE_PER_ELEMENT(rms_norm_functions);
constinit const PerElement<NormKernels> layer_norm_kernels = BURNLIKE_PER_ELEMENT(layer_norm_functions);
