// softmax(scale * scores) with hidden columns, row by row. Sums of a row have fixed lanes.

namespace {

// The seen scores of a row, scaled, in whole lanes of which the row has `count` values. The mask has a loop of its own:
// in one with it GCC reads scores behind the mask's bits, which takes three times as long.
template <class Element>
inline void load_scores(
    const Element* __restrict__ scores, const SeenColumns& seen, accumulate_t<Element> scale,
    accumulate_t<Element>* __restrict__ values, int64_t count, int64_t whole) {
  using Accumulate = accumulate_t<Element>;
  const uint8_t* __restrict__ mask = seen.mask;
  for (int64_t column = 0; column < count; ++column) values[column] = Accumulate(load(scores[column])) * scale;
  if (mask != nullptr) {
    for (int64_t column = 0; column < seen.end; ++column) {
      values[column] = mask[column] != 0 ? hidden_score<Accumulate>() : values[column];
    }
  }
  for (int64_t column = seen.end; column < whole; ++column) values[column] = hidden_score<Accumulate>();
}

inline bool is_blind(const SeenColumns& seen) {
  for (int64_t column = 0; column < seen.end; ++column) {
    if (!seen.hides(column)) return false;
  }
  return true;
}

template <class Element>
inline void fill_columns(Element* __restrict__ y, int64_t begin, int64_t end, accumulate_t<Element> value) {
  const Element stored = store<Element>(value);
  for (int64_t column = begin; column < end; ++column) y[column] = stored;
}

// Whole lanes of scores become exponentials; returns their sum.
template <class Accumulate>
inline Accumulate exponentials_of_lanes(Accumulate* values, int64_t whole, Accumulate largest) {
  constexpr int64_t lanes = kLanes<Accumulate>;
  Lanes<Accumulate> sums;
  for (int64_t start = 0; start < whole; start += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      values[start + lane] = decay(values[start + lane] - largest);
      sums[lane] += values[start + lane];
    }
  }
  return sum_of_lanes(sums);
}

template <class Element>
void masked_softmax_forward_rows(
    const SoftmaxForward<Element>& pass, accumulate_t<Element>* scratch, int64_t begin, int64_t end) {
  using Accumulate = accumulate_t<Element>;
  const int64_t columns = pass.hidden.columns;
  for (int64_t row = begin; row < end; ++row) {
    const Element* scores = pass.scores + row * columns;
    Element* __restrict__ y = pass.y + row * columns;
    const SeenColumns seen = pass.hidden.row(row);
    // Loops over odd numbers of columns, as of causal rows, would end value by value.
    const int64_t whole = (seen.end + kLanes<Accumulate> - 1) / kLanes<Accumulate> * kLanes<Accumulate>;
    const int64_t count = whole < columns ? whole : columns;
    load_scores(scores, seen, pass.scale, scratch, count, whole);
    const Accumulate largest = largest_of_lanes(scratch, whole);
    if (largest == hidden_score<Accumulate>() && is_blind(seen)) {
      fill_columns(y, 0, columns, Accumulate(1) / static_cast<Accumulate>(columns));
      continue;
    }
    const Accumulate factor = Accumulate(1) / exponentials_of_lanes(scratch, whole, largest);
    for (int64_t column = 0; column < count; ++column) y[column] = store<Element>(scratch[column] * factor);
    fill_columns(y, count, columns, Accumulate(0) * factor);  // NaN in a row of NaN
  }
}

template <bool kMasked, class Element>
inline void masked_softmax_backward_row(
    const Element* __restrict__ grad, const Element* __restrict__ y, Element* __restrict__ grad_scores,
    const SeenColumns& seen, accumulate_t<Element> scale) {
  using Accumulate = accumulate_t<Element>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const uint8_t* __restrict__ mask = seen.mask;
  const int64_t whole = seen.end - seen.end % lanes;
  Lanes<Accumulate> products;
  for (int64_t start = 0; start < whole; start += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t column = start + lane;
      products[lane] +=
          softmax_product(Accumulate(load(grad[column])), Accumulate(load(y[column])), kMasked && mask[column] != 0);
    }
  }
  for (int64_t column = whole; column < seen.end; ++column) {
    products[column - whole] +=
        softmax_product(Accumulate(load(grad[column])), Accumulate(load(y[column])), kMasked && mask[column] != 0);
  }
  const Accumulate sum = sum_of_lanes(products);
  for (int64_t column = 0; column < seen.end; ++column) {
    grad_scores[column] = store<Element>(softmax_grad(
        Accumulate(load(grad[column])), Accumulate(load(y[column])), sum, scale, kMasked && mask[column] != 0));
  }
}

template <class Element>
void masked_softmax_backward_rows(const SoftmaxBackward<Element>& pass, int64_t begin, int64_t end) {
  const int64_t columns = pass.hidden.columns;
  for (int64_t row = begin; row < end; ++row) {
    const Element* grad = pass.grad + row * columns;
    const Element* y = pass.y + row * columns;
    Element* grad_scores = pass.grad_scores + row * columns;
    const SeenColumns seen = pass.hidden.row(row);
    if (seen.mask == nullptr) {
      masked_softmax_backward_row<false>(grad, y, grad_scores, seen, pass.scale);
    } else {
      masked_softmax_backward_row<true>(grad, y, grad_scores, seen, pass.scale);
    }
    fill_columns(grad_scores, seen.end, columns, accumulate_t<Element>(0));
  }
}

template <class Element>
constexpr MaskedSoftmaxKernels<Element> masked_softmax_functions = {
    masked_softmax_forward_rows<Element>, masked_softmax_backward_rows<Element>};

}  // namespace

constinit const PerElement<MaskedSoftmaxKernels> masked_softmax_kernels =
    BURNLIKE_PER_ELEMENT(masked_softmax_functions);
