// Cross-entropy over classes. A row is taken in tiles, so that it is read from memory once and the rest of the work is
// done in the fastest cache. Sums of a tile have fixed lanes, and tiles are added in their order.

namespace {

constexpr int64_t kClassTile = 512;

// The logits of a tile, squashed, in whole lanes: the last ones are filled with what counts nothing.
template <bool kCapped, class Element>
inline int64_t load_tile(
    const Element* logits, accumulate_t<Element>* tile, int64_t count, accumulate_t<Element> soft_cap) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t index = 0; index < count; ++index) {
    tile[index] = squashed<kCapped>(Accumulate(load(logits[index])), soft_cap);
  }
  const int64_t whole = (count + kLanes<Accumulate> - 1) / kLanes<Accumulate> * kLanes<Accumulate>;
  for (int64_t index = count; index < whole; ++index) tile[index] = lowest_logit<Accumulate>();
  return whole;
}

template <bool kCapped, class Accumulate>
inline Accumulate exponentials_of_tile(const Accumulate* tile, int64_t whole, Accumulate shift, Accumulate soft_cap) {
  constexpr int64_t lanes = kLanes<Accumulate>;
  Lanes<Accumulate> sums;
  for (int64_t start = 0; start < whole; start += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += decay(capped<kCapped>(tile[start + lane], soft_cap) - shift);
    }
  }
  return sum_of_lanes(sums);
}

// The sum of w * (z - z_t), of a tile; weights may be null.
template <bool kCapped, class Accumulate>
inline Accumulate rest_of_tile(
    const Accumulate* tile, const Accumulate* weights, int64_t count, Accumulate target_logit, Accumulate soft_cap) {
  constexpr int64_t lanes = kLanes<Accumulate>;
  Lanes<Accumulate> sums;
  for (int64_t start = 0; start < count; start += lanes) {
    const int64_t end = count - start < lanes ? count - start : lanes;
    for (int64_t lane = 0; lane < end; ++lane) {
      const Accumulate distance = capped<kCapped>(tile[start + lane], soft_cap) - target_logit;
      sums[lane] += weights == nullptr ? distance : weights[start + lane] * distance;
    }
  }
  return sum_of_lanes(sums);
}

// Writes the row's statistics and returns its loss.
template <bool kCapped, class Element>
inline double cross_entropy_forward_row(
    const Element* logits, int64_t target, const CrossEntropyOptions<accumulate_t<Element>>& options,
    accumulate_t<Element>* statistics) {
  using Accumulate = accumulate_t<Element>;
  const Accumulate cap = options.soft_cap;
  const Accumulate target_logit = capped<kCapped>(squashed<kCapped>(Accumulate(load(logits[target])), cap), cap);
  // A distance to an infinite logit would be NaN where the loss is infinite.
  const bool is_finite = target_logit - target_logit == Accumulate(0);
  const Accumulate origin = is_finite ? target_logit : Accumulate(0);
  alignas(64) Accumulate tile[kClassTile];
  Accumulate largest = lowest_logit<Accumulate>();
  double sum = 0.0;
  double rest = 0.0;
  for (int64_t start = 0; start < options.classes; start += kClassTile) {
    const int64_t count = options.classes - start < kClassTile ? options.classes - start : kClassTile;
    const int64_t whole = load_tile<kCapped>(logits + start, tile, count, cap);
    const Accumulate larger = capped<kCapped>(largest_of_lanes(tile, whole), cap);
    if (larger > largest) {
      sum *= exponential(static_cast<double>(largest) - static_cast<double>(larger));
      largest = larger;
    }
    sum += exponentials_of_tile<kCapped>(tile, whole, shift_of(largest), cap);
    if (options.label_smoothing > 0.0) {
      const Accumulate* weights = options.weights == nullptr ? nullptr : options.weights + start;
      rest += rest_of_tile<kCapped>(tile, weights, count, origin, cap);
    }
  }
  statistics[0] = shift_of(largest);
  statistics[1] = static_cast<Accumulate>(sum);
  return cross_entropy_loss(options, weight_of(options, target), statistics[0], statistics[1], target_logit, rest);
}

// `losses` may be null; the sum of the losses and that of the targets' weights are added to `sums`.
template <class Element>
void cross_entropy_forward_rows(
    const Element* logits, const int64_t* targets, const CrossEntropyOptions<accumulate_t<Element>>& options,
    accumulate_t<Element>* statistics, accumulate_t<Element>* losses, double* sums, int64_t begin, int64_t end) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t target = targets[row];
    const Element* row_logits = logits + row * options.classes;
    double loss = 0.0;
    if (target == options.ignore_index) {
      statistics[2 * row] = Accumulate(0);
      statistics[2 * row + 1] = Accumulate(1);
    } else {
      loss = options.soft_cap > Accumulate(0)
                 ? cross_entropy_forward_row<true>(row_logits, target, options, statistics + 2 * row)
                 : cross_entropy_forward_row<false>(row_logits, target, options, statistics + 2 * row);
      sums[0] += loss;
      sums[1] += weight_of(options, target);
    }
    if (losses != nullptr) losses[row] = static_cast<Accumulate>(loss);
  }
}

template <bool kCapped, bool kWeighted, class Accumulate>
inline Accumulate cross_entropy_grad(
    Accumulate value, Accumulate weight, Accumulate shift, Accumulate soft_cap,
    const CrossEntropySlopes<Accumulate>& slopes) {
  Accumulate grad = slopes.exps * decay(capped<kCapped>(value, soft_cap) - shift);
  grad -= kWeighted ? slopes.spread * weight : slopes.spread;
  return kCapped ? grad * cap_slope<kCapped>(value) : grad;
}

// `grads` may be the logits themselves.
template <bool kCapped, bool kWeighted, class Element>
inline void cross_entropy_backward_row(
    const Element* logits, int64_t target, const CrossEntropyOptions<accumulate_t<Element>>& options,
    accumulate_t<Element> shift, const CrossEntropySlopes<accumulate_t<Element>>& slopes, Element* grads) {
  using Accumulate = accumulate_t<Element>;
  const Accumulate cap = options.soft_cap;
  const Accumulate target_value = squashed<kCapped>(Accumulate(load(logits[target])), cap);
  alignas(64) Accumulate tile[kClassTile];
  for (int64_t start = 0; start < options.classes; start += kClassTile) {
    const int64_t count = options.classes - start < kClassTile ? options.classes - start : kClassTile;
    load_tile<kCapped>(logits + start, tile, count, cap);
    for (int64_t index = 0; index < count; ++index) {
      const Accumulate weight = kWeighted ? options.weights[start + index] : Accumulate(0);
      grads[start + index] =
          store<Element>(cross_entropy_grad<kCapped, kWeighted>(tile[index], weight, shift, cap, slopes));
    }
  }
  const Accumulate weight = kWeighted ? options.weights[target] : Accumulate(0);
  const Accumulate others = cross_entropy_grad<kCapped, kWeighted>(target_value, weight, shift, cap, slopes);
  grads[target] = store<Element>(others - slopes.target * cap_slope<kCapped>(target_value));
}

// `grad` has one value for each row, or one for all if `grad_step` is 0.
template <class Element>
void cross_entropy_backward_rows(
    const accumulate_t<Element>* grad, int64_t grad_step, double divisor, const Element* logits, const int64_t* targets,
    const CrossEntropyOptions<accumulate_t<Element>>& options, const accumulate_t<Element>* statistics, Element* grads,
    int64_t begin, int64_t end) {
  using Accumulate = accumulate_t<Element>;
  const bool is_capped = options.soft_cap > Accumulate(0);
  const bool is_weighted = options.weights != nullptr && options.label_smoothing > 0.0;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t target = targets[row];
    const Element* row_logits = logits + row * options.classes;
    Element* row_grads = grads + row * options.classes;
    if (target == options.ignore_index) {
      for (int64_t index = 0; index < options.classes; ++index) row_grads[index] = store<Element>(Accumulate(0));
      continue;
    }
    const Accumulate shift = statistics[2 * row];
    const auto slopes = cross_entropy_slopes(
        options, weight_of(options, target), shift, statistics[2 * row + 1],
        static_cast<double>(grad[row * grad_step]) / divisor);
    if (is_capped && is_weighted) {
      cross_entropy_backward_row<true, true>(row_logits, target, options, shift, slopes, row_grads);
    } else if (is_capped) {
      cross_entropy_backward_row<true, false>(row_logits, target, options, shift, slopes, row_grads);
    } else if (is_weighted) {
      cross_entropy_backward_row<false, true>(row_logits, target, options, shift, slopes, row_grads);
    } else {
      cross_entropy_backward_row<false, false>(row_logits, target, options, shift, slopes, row_grads);
    }
  }
}

template <class Element>
constexpr CrossEntropyKernels<Element> cross_entropy_functions = {
    cross_entropy_forward_rows<Element>, cross_entropy_backward_rows<Element>};

}  // namespace

constinit const PerElement<CrossEntropyKernels> cross_entropy_kernels = BURNLIKE_PER_ELEMENT(cross_entropy_functions);
