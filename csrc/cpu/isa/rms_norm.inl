// RMS normalization of rows.

template <class Element>
void rms_norm_forward_rows(
    const Element* x, const accumulate_t<Element>* gamma, Element* y, int64_t begin, int64_t end, int64_t width,
    double epsilon) {
  using Accumulate = accumulate_t<Element>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const int64_t whole = width - width % lanes;
  for (int64_t row = begin; row < end; ++row) {
    const Element* __restrict__ x_row = x + row * width;
    Element* __restrict__ y_row = y + row * width;
    Accumulate squares[lanes] = {};
    for (int64_t column = 0; column < whole; column += lanes) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const Accumulate value = load(x_row[column + lane]);
        squares[lane] += value * value;
      }
    }
    for (int64_t column = whole; column < width; ++column) {
      const Accumulate value = load(x_row[column]);
      squares[column - whole] += value * value;
    }
    const Accumulate scale = rms_norm_scale(
        sum_of_lanes(squares), static_cast<Accumulate>(width), static_cast<Accumulate>(epsilon));
    for (int64_t column = 0; column < width; ++column) {
      y_row[column] = store<Element>(rms_norm_output(Accumulate(load(x_row[column])), gamma[column], scale));
    }
  }
}

template <class Element>
void rms_norm_backward_rows(
    const Element* grad, const Element* x, const accumulate_t<Element>* gamma, Element* grad_x,
    accumulate_t<Element>* __restrict__ grad_gamma, int64_t begin, int64_t end, int64_t width, double epsilon) {
  using Accumulate = accumulate_t<Element>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const int64_t whole = width - width % lanes;
  for (int64_t row = begin; row < end; ++row) {
    const Element* __restrict__ x_row = x + row * width;
    const Element* __restrict__ grad_row = grad + row * width;
    Element* __restrict__ grad_x_row = grad_x + row * width;
    Accumulate squares[lanes] = {};
    Accumulate dots[lanes] = {};
    for (int64_t column = 0; column < whole; column += lanes) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const Accumulate value = load(x_row[column + lane]);
        squares[lane] += value * value;
        dots[lane] += Accumulate(load(grad_row[column + lane])) * gamma[column + lane] * value;
      }
    }
    for (int64_t column = whole; column < width; ++column) {
      const Accumulate value = load(x_row[column]);
      squares[column - whole] += value * value;
      dots[column - whole] += Accumulate(load(grad_row[column])) * gamma[column] * value;
    }
    const Accumulate count = static_cast<Accumulate>(width);
    const Accumulate scale = rms_norm_scale(sum_of_lanes(squares), count, static_cast<Accumulate>(epsilon));
    const Accumulate pull = rms_norm_pull(scale, sum_of_lanes(dots), count);
    for (int64_t column = 0; column < width; ++column) {
      const Accumulate value = load(x_row[column]);
      const Accumulate slope = load(grad_row[column]);
      grad_x_row[column] = store<Element>(rms_norm_grad_x(slope, gamma[column], value, scale, pull));
      grad_gamma[column] += rms_norm_grad_gamma(slope, value, scale);
    }
  }
}

template <class Element>
constexpr RmsNormKernels<Element> rms_norm_kernels = {rms_norm_forward_rows<Element>, rms_norm_backward_rows<Element>};
