// Batch normalization of rows: each column is normalized over all rows.

namespace {

template <class Element>
struct PlainValue {
  BURNLIKE_INLINE accumulate_t<Element> operator()(Element x, int64_t) const { return load(x); }
};

template <class Element>
struct CenteredSquare {
  const accumulate_t<Element>* __restrict__ mean;

  BURNLIKE_INLINE accumulate_t<Element> operator()(Element x, int64_t column) const {
    const accumulate_t<Element> centered = accumulate_t<Element>(load(x)) - mean[column];
    return centered * centered;
  }
};

// The value, or zero even of an infinite one: by its bits, since of a choice GCC 12 makes branches.
BURNLIKE_INLINE float value_where(bool is_kept, float value) {
  return detail::float_of(detail::bits_of(value) & (0u - static_cast<uint32_t>(is_kept)));
}

BURNLIKE_INLINE double value_where(bool is_kept, double value) {
  return detail::double_of(detail::bits_of(value) & (uint64_t{0} - static_cast<uint64_t>(is_kept)));
}

// `gradient` is that of x by the gradient of the result; `gradient_by_value` is the same where the activation has this
// result, for those that a residual comes with. With `kKeepsGradient` the first pass of the gradients leaves what is
// behind the activation in `grad_x`; in 16 bits it is rounded there, as torch rounds it.
struct NoChange {
  static constexpr bool kKeepsGradient = false;

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return x;
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient(Accumulate grad, Accumulate) {
    return grad;
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient_by_value(Accumulate grad, Accumulate) {
    return grad;
  }
};

// NaN stays NaN, as torch has it, and so does its gradient.
struct Relu {
  static constexpr bool kKeepsGradient = false;

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return x <= Accumulate(0) ? Accumulate(0) : x;
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient(Accumulate grad, Accumulate x) {
    return value_where(!(x <= Accumulate(0)), grad);
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient_by_value(Accumulate grad, Accumulate value) {
    return gradient(grad, value);
  }
};

struct SiluOfSum {
  static constexpr bool kKeepsGradient = true;

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    return Silu::value(x);
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient(Accumulate grad, Accumulate x) {
    return Silu::parts(x).slope * grad;
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient_by_value(Accumulate, Accumulate) {
    return 0;
  }
};

// x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019, section 5.2).
struct Hardswish {
  static constexpr bool kKeepsGradient = false;

  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate value(Accumulate x) {
    const Accumulate shifted = x + Accumulate(3);
    const Accumulate above = shifted < Accumulate(0) ? Accumulate(0) : shifted;
    return x * (above > Accumulate(6) ? Accumulate(6) : above) / Accumulate(6);
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient(Accumulate grad, Accumulate x) {
    const Accumulate middle = x / Accumulate(3) + Accumulate(0.5);
    const Accumulate slope = x < Accumulate(3) ? middle : Accumulate(1);
    return value_where(!(x <= Accumulate(-3)), slope * grad);
  }
  template <class Accumulate>
  BURNLIKE_INLINE static Accumulate gradient_by_value(Accumulate, Accumulate) {
    return 0;
  }
};

// Four rows at a time, whose sum is one number that is added: the sums are read and written a quarter as often.
template <class Element, class Value>
inline void add_columns(
    accumulate_t<Element>* __restrict__ sums, const Element* x, int64_t rows, int64_t width, const Value& value) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const Element* __restrict__ first = x + row * width;
    for (int64_t column = 0; column < width; ++column) {
      sums[column] += (value(first[column], column) + value(first[column + width], column)) +
                      (value(first[column + 2 * width], column) + value(first[column + 3 * width], column));
    }
  }
  for (; row < rows; ++row) {
    for (int64_t column = 0; column < width; ++column) sums[column] += value(x[row * width + column], column);
  }
}

// Two passes over a block of rows that stays in the cache.
template <class Element>
void column_moments(
    const Element* x, accumulate_t<Element>* __restrict__ mean, accumulate_t<Element>* __restrict__ squares,
    int64_t rows, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t column = 0; column < width; ++column) mean[column] = squares[column] = 0;
  add_columns(mean, x, rows, width, PlainValue<Element>{});
  for (int64_t column = 0; column < width; ++column) mean[column] /= Accumulate(rows);
  add_columns(squares, x, rows, width, CenteredSquare<Element>{mean});
}

template <class Activation, bool kAdds, class Element>
inline void batch_norm_rows(
    const Element* x_rows, const Element* residual_rows, Element* y_rows, const Columns<accumulate_t<Element>>& columns,
    int64_t begin, int64_t end, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  const Accumulate* __restrict__ mean = columns.mean;
  const Accumulate* __restrict__ scale = columns.scale;
  const Accumulate* __restrict__ beta = columns.beta;
  for (int64_t row = begin; row < end; ++row) {
    const Element* __restrict__ x = x_rows + row * width;
    const Element* __restrict__ residual = residual_rows + (kAdds ? row * width : 0);
    Element* __restrict__ y = y_rows + row * width;
    for (int64_t column = 0; column < width; ++column) {
      Accumulate value = (Accumulate(load(x[column])) - mean[column]) * scale[column] + beta[column];
      if constexpr (kAdds) value += Accumulate(load(residual[column]));
      y[column] = store<Element>(Activation::value(value));
    }
  }
}

template <class Activation, class Element>
void batch_norm_forward(
    const Element* x, const Element* residual, Element* y, const Columns<accumulate_t<Element>>& columns, int64_t begin,
    int64_t end, int64_t width) {
  if (residual != nullptr) return batch_norm_rows<Activation, true>(x, residual, y, columns, begin, end, width);
  batch_norm_rows<Activation, false>(x, residual, y, columns, begin, end, width);
}

// The gradient behind the activation: by the result where it has a residual in it, else by the sum computed again.
template <class Activation, bool kByResult, class Accumulate>
inline Accumulate gradient_behind(
    Accumulate grad, Accumulate centered, Accumulate result, Accumulate scale, Accumulate beta) {
  if constexpr (kByResult) return Activation::gradient_by_value(grad, result);
  return Activation::gradient(grad, centered * scale + beta);
}

// Where the first pass of the gradients leaves what is behind the activation for the second: where exp would take
// longer than memory, and where it is the gradient of a residual, too.
template <class Activation, bool kByResult>
constexpr bool kKeeps = kByResult || Activation::kKeepsGradient;

// A function of its own, whose parameters GCC 12 knows to be apart: within a loop over rows it vectorizes few of them.
// The sum over its rows is one number that is added: the sums are read and written once for all of them.
template <class Activation, bool kByResult, int kRows, class Element>
__attribute__((noinline)) void gradient_sums_rows(
    const Element* __restrict__ grad, const Element* __restrict__ x, const Element* __restrict__ y,
    const accumulate_t<Element>* __restrict__ mean, const accumulate_t<Element>* __restrict__ scale,
    const accumulate_t<Element>* __restrict__ beta, accumulate_t<Element>* __restrict__ slopes,
    accumulate_t<Element>* __restrict__ products, Element* __restrict__ kept, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t column = 0; column < width; ++column) {
    Accumulate slope_sum = 0;
    Accumulate product_sum = 0;
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      const int64_t place = row * width + column;
      const Accumulate centered = Accumulate(load(x[place])) - mean[column];
      Accumulate result = 0;
      if constexpr (kByResult) result = load(y[place]);
      const Accumulate slope = gradient_behind<Activation, kByResult>(
          Accumulate(load(grad[place])), centered, result, scale[column], beta[column]);
      if constexpr (kKeeps<Activation, kByResult>) kept[place] = store<Element>(slope);
      slope_sum += slope;
      product_sum += slope * centered;
    }
    slopes[column] += slope_sum;
    products[column] += product_sum;
  }
}

template <class Activation, bool kByResult, class Element>
inline void gradient_sums(
    const Element* grad, const Element* x, const Element* y, Element* kept, accumulate_t<Element>* sums,
    const Columns<accumulate_t<Element>>& columns, int64_t begin, int64_t end, int64_t width) {
  const auto run = [&](auto function, int64_t row) {
    const int64_t place = row * width;
    function(
        grad + place, x + place, kByResult ? y + place : y, columns.mean, columns.scale, columns.beta, sums,
        sums + width, kept + place, width);
  };
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) run(gradient_sums_rows<Activation, kByResult, 4, Element>, row);
  for (; row < end; ++row) run(gradient_sums_rows<Activation, kByResult, 1, Element>, row);
}

template <class Activation, class Element>
void batch_norm_sums(
    const Element* grad, const Element* x, const Element* y, Element* kept, accumulate_t<Element>* sums,
    const Columns<accumulate_t<Element>>& columns, int64_t begin, int64_t end, int64_t width) {
  if (y != nullptr) return gradient_sums<Activation, true>(grad, x, y, kept, sums, columns, begin, end, width);
  gradient_sums<Activation, false>(grad, x, y, kept, sums, columns, begin, end, width);
}

template <class Activation, bool kByResult, class Element>
inline void gradient_rows(
    const Element* grad_rows, const Element* x_rows, const Element* kept_rows, Element* grad_x_rows,
    const Columns<accumulate_t<Element>>& columns, int64_t begin, int64_t end, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  const Accumulate* __restrict__ mean = columns.mean;
  const Accumulate* __restrict__ scale = columns.scale;
  const Accumulate* __restrict__ beta = columns.beta;
  const Accumulate* __restrict__ mean_grad = columns.mean_grad;
  const Accumulate* __restrict__ pull = columns.pull;
  for (int64_t row = begin; row < end; ++row) {
    const Element* __restrict__ grad = grad_rows + row * width;
    const Element* __restrict__ x = x_rows + row * width;
    const Element* kept = kept_rows + row * width;  // of a SiLU in the same memory as the result
    Element* grad_x = grad_x_rows + row * width;
#pragma GCC ivdep
    for (int64_t column = 0; column < width; ++column) {
      const Accumulate centered = Accumulate(load(x[column])) - mean[column];
      Accumulate slope;
      if constexpr (kKeeps<Activation, kByResult>) {
        slope = load(kept[column]);
      } else {
        slope = gradient_behind<Activation, false>(
            Accumulate(load(grad[column])), centered, Accumulate(0), scale[column], beta[column]);
      }
      grad_x[column] = store<Element>(scale[column] * ((slope - mean_grad[column]) - centered * pull[column]));
    }
  }
}

template <class Activation, class Element>
void batch_norm_backward(
    const Element* grad, const Element* x, const Element* grad_residual, Element* grad_x,
    const Columns<accumulate_t<Element>>& columns, int64_t begin, int64_t end, int64_t width) {
  if (grad_residual != nullptr) {
    return gradient_rows<Activation, true>(grad, x, grad_residual, grad_x, columns, begin, end, width);
  }
  gradient_rows<Activation, false>(grad, x, grad_x, grad_x, columns, begin, end, width);
}

template <class Activation>
struct BatchNormFunctions {
  template <class Element>
  static constexpr BatchNormKernels<Element> of = {
      column_moments<Element>, batch_norm_forward<Activation, Element>, batch_norm_sums<Activation, Element>,
      batch_norm_backward<Activation, Element>};
};

}  // namespace

constinit const PerElement<BatchNormKernels> batch_norm_kernels =
    BURNLIKE_PER_ELEMENT(BatchNormFunctions<NoChange>::of);
constinit const PerElement<BatchNormKernels> relu_batch_norm_kernels =
    BURNLIKE_PER_ELEMENT(BatchNormFunctions<Relu>::of);
constinit const PerElement<BatchNormKernels> silu_batch_norm_kernels =
    BURNLIKE_PER_ELEMENT(BatchNormFunctions<SiluOfSum>::of);
constinit const PerElement<BatchNormKernels> hardswish_batch_norm_kernels =
    BURNLIKE_PER_ELEMENT(BatchNormFunctions<Hardswish>::of);
