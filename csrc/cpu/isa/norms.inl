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

template <class Element>
inline accumulate_t<Element> mean_of(const Element* x, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const int64_t whole = width - width % lanes;
  Lanes<Accumulate> sums;
  for (int64_t column = 0; column < whole; column += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) sums[lane] += load(x[column + lane]);
  }
  for (int64_t column = whole; column < width; ++column) sums[column - whole] += load(x[column]);
  return sum_of_lanes(sums) / static_cast<Accumulate>(width);
}

// A row's m, and the sum of the squares of x - m.
template <class Accumulate>
struct Moments {
  Accumulate mean;
  Accumulate squares;
};

// The mean as it was summed at first is off by some of its last places; the mean of what it leaves mends that.
template <class Norm, class Element>
inline Moments<accumulate_t<Element>> moments_of(const Element* x, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const int64_t whole = width - width % lanes;
  Accumulate mean = 0;
  if constexpr (Norm::kCentered) mean = mean_of(x, width);
  Lanes<Accumulate> squares;
  Lanes<Accumulate> rests;
  for (int64_t column = 0; column < whole; column += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const Accumulate centered = load(x[column + lane]) - mean;
      squares[lane] += centered * centered;
      if constexpr (Norm::kCentered) rests[lane] += centered;
    }
  }
  for (int64_t column = whole; column < width; ++column) {
    const Accumulate centered = load(x[column]) - mean;
    squares[column - whole] += centered * centered;
    if constexpr (Norm::kCentered) rests[column - whole] += centered;
  }
  const Accumulate total = sum_of_lanes(squares);
  if constexpr (!Norm::kCentered) return {0, total};
  const Accumulate rest = sum_of_lanes(rests) / static_cast<Accumulate>(width);
  return {mean + rest, total};
}

template <class Norm, class Element>
void norm_forward_rows(const CpuNormForward<Element>& pass, int64_t begin, int64_t end) {
  using Accumulate = accumulate_t<Element>;
  const int64_t width = pass.width;
  const Accumulate* __restrict__ gamma = pass.gamma;
  const Accumulate* __restrict__ beta = pass.beta;
  for (int64_t row = begin; row < end; ++row) {
    const Element* __restrict__ x = pass.x + row * width;
    Element* __restrict__ y = pass.y + row * width;
    if (pass.residual != nullptr) {
      add_values(x, pass.residual + row * width, pass.sum + row * width, width);
      x = pass.sum + row * width;
    }
    const Moments<Accumulate> moments = moments_of<Norm>(x, width);
    const Accumulate mean = moments.mean;
    const Accumulate scale = norm_scale(moments.squares, static_cast<Accumulate>(width), pass.epsilon);
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

// What a row's gradient of x needs of the whole row.
template <class Accumulate>
struct RowSums {
  Accumulate mean;
  Accumulate scale;
  Accumulate pull;
  Accumulate mean_slope;
};

template <class Norm, class Element>
inline RowSums<accumulate_t<Element>> row_sums(
    const Element* grad, const Element* x, const accumulate_t<Element>* gamma, int64_t width,
    accumulate_t<Element> epsilon) {
  using Accumulate = accumulate_t<Element>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const int64_t whole = width - width % lanes;
  // One pass for all of them, relative to the mean as it was summed at first; `moments_of` says what `rests` are for.
  Accumulate mean = 0;
  if constexpr (Norm::kCentered) mean = mean_of(x, width);
  Lanes<Accumulate> squares;
  Lanes<Accumulate> rests;
  Lanes<Accumulate> dots;
  Lanes<Accumulate> slopes;
  for (int64_t column = 0; column < whole; column += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const Accumulate centered = load(x[column + lane]) - mean;
      const Accumulate slope = Accumulate(load(grad[column + lane])) * gamma[column + lane];
      squares[lane] += centered * centered;
      dots[lane] += slope * centered;
      if constexpr (Norm::kCentered) {
        rests[lane] += centered;
        slopes[lane] += slope;
      }
    }
  }
  for (int64_t column = whole; column < width; ++column) {
    const Accumulate centered = load(x[column]) - mean;
    const Accumulate slope = Accumulate(load(grad[column])) * gamma[column];
    squares[column - whole] += centered * centered;
    dots[column - whole] += slope * centered;
    if constexpr (Norm::kCentered) {
      rests[column - whole] += centered;
      slopes[column - whole] += slope;
    }
  }
  const Accumulate count = static_cast<Accumulate>(width);
  const Accumulate scale = norm_scale(sum_of_lanes(squares), count, epsilon);
  const Accumulate dot = sum_of_lanes(dots);
  if constexpr (!Norm::kCentered) return {0, scale, norm_pull(scale, dot, count), 0};
  const Accumulate rest = sum_of_lanes(rests) / count;
  const Accumulate slope = sum_of_lanes(slopes);
  return {mean + rest, scale, norm_pull(scale, dot - rest * slope, count), slope / count};
}

template <class Norm, bool kAdds, class Element>
inline void norm_backward_row(
    const CpuNormBackward<Element>& pass, int64_t row, accumulate_t<Element>* __restrict__ gamma_sums,
    accumulate_t<Element>* __restrict__ beta_sums) {
  using Accumulate = accumulate_t<Element>;
  const int64_t width = pass.width;
  const Accumulate* __restrict__ gamma = pass.gamma;
  const Element* __restrict__ x = pass.x + row * width;
  const Element* __restrict__ grad = pass.grad + row * width;
  const Element* __restrict__ grad_sum = pass.grad_sum + (kAdds ? row * width : 0);
  Element* __restrict__ grad_x = pass.grad_x + row * width;
  const RowSums<Accumulate> sums = row_sums<Norm>(grad, x, gamma, width, pass.epsilon);
  for (int64_t column = 0; column < width; ++column) {
    const Accumulate centered = load(x[column]) - sums.mean;
    const Accumulate upper = load(grad[column]);
    Accumulate slope = upper * gamma[column];
    if constexpr (Norm::kCentered) slope -= sums.mean_slope;
    Accumulate total = norm_grad_x(slope, centered, sums.scale, sums.pull);
    if constexpr (kAdds) total += load(grad_sum[column]);
    grad_x[column] = store<Element>(total);
    gamma_sums[column] += norm_grad_gamma(upper, centered, sums.scale);
    if constexpr (Norm::kCentered) beta_sums[column] += upper;
  }
}

template <class Norm, class Element>
void norm_backward_rows(const CpuNormBackward<Element>& pass, accumulate_t<Element>* sums, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    if (pass.grad_sum != nullptr) {
      norm_backward_row<Norm, true>(pass, row, sums, sums + pass.width);
    } else {
      norm_backward_row<Norm, false>(pass, row, sums, sums + pass.width);
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
