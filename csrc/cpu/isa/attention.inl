// Attention's backward pass between its products: weights and gradients of a tile of scores, and sums over heads' rows.

namespace {

template <class Product, bool kHasLow, bool kHasBias>
void attention_tile_row(const AttentionTile<Product>& tile, int64_t row, int64_t begin) {
  using Accumulate = accumulate_t<Product>;
  const int64_t offset = row * tile.columns;
  Product* __restrict__ scores = tile.scores + offset;
  Product* __restrict__ grads = tile.grads + offset;
  const Product* __restrict__ scores_low = kHasLow ? tile.scores_low + offset : nullptr;
  const Product* __restrict__ grads_low = kHasLow ? tile.grads_low + offset : nullptr;
  const Accumulate* __restrict__ bias = kHasBias ? tile.bias + offset : nullptr;
  const Accumulate* __restrict__ logsumexp = tile.logsumexp;
  const Accumulate* __restrict__ deltas = tile.deltas;
  const Accumulate scale = tile.scale;
  for (int64_t column = begin; column < tile.columns; ++column) {
    Accumulate score = load(scores[column]);
    Accumulate grad = load(grads[column]);
    if constexpr (kHasLow) {
      score = sum_of_parts(score, Accumulate(load(scores_low[column])));
      grad = sum_of_parts(grad, Accumulate(load(grads_low[column])));
    }
    score *= scale;
    if constexpr (kHasBias) score += bias[column];
    const Accumulate weight = attention_weight(score, logsumexp[column]);
    scores[column] = store<Product>(weight);
    grads[column] = store<Product>(attention_grad_product(weight, grad, deltas[column], scale));
  }
}

template <class Product>
void attention_tile(const AttentionTile<Product>& tile) {
  using Accumulate = accumulate_t<Product>;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const int64_t hidden = row * tile.hidden_step;
    const int64_t begin = hidden < tile.columns ? hidden : tile.columns;
    for (int64_t column = 0; column < begin; ++column) {
      tile.scores[row * tile.columns + column] = store<Product>(Accumulate(0));
      tile.grads[row * tile.columns + column] = store<Product>(Accumulate(0));
    }
    if (tile.scores_low != nullptr) {
      tile.bias != nullptr ? attention_tile_row<Product, true, true>(tile, row, begin)
                           : attention_tile_row<Product, true, false>(tile, row, begin);
    } else {
      tile.bias != nullptr ? attention_tile_row<Product, false, true>(tile, row, begin)
                           : attention_tile_row<Product, false, false>(tile, row, begin);
    }
  }
}

// The scaled scores, filled up with -inf to a whole number of lanes, and the largest.
template <class Product, bool kHasLow>
accumulate_t<Product> attention_scores(const AttentionRow<Product>& tile) {
  using Accumulate = accumulate_t<Product>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const Product* __restrict__ scores = tile.scores;
  const Product* __restrict__ low = tile.scores_low;
  Accumulate* __restrict__ row = tile.row;
  const Accumulate scale = tile.scale;
  for (int64_t index = 0; index < tile.seen; ++index) {
    Accumulate score = load(scores[index]);
    if constexpr (kHasLow) score = sum_of_parts(score, Accumulate(load(low[index])));
    row[index] = score * scale;
  }
  int64_t end = tile.seen;
  for (; end % lanes != 0; ++end) row[end] = -std::numeric_limits<Accumulate>::infinity();
  Accumulate largest[lanes];
  for (int64_t lane = 0; lane < lanes; ++lane) largest[lane] = row[lane];
  for (int64_t index = lanes; index < end; index += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      largest[lane] = row[index + lane] > largest[lane] ? row[index + lane] : largest[lane];
    }
  }
  Accumulate result = largest[0];
  for (int64_t lane = 1; lane < lanes; ++lane) result = largest[lane] > result ? largest[lane] : result;
  return result;
}

template <class Product>
AttentionSum<accumulate_t<Product>> attention_softmax(const AttentionRow<Product>& tile) {
  using Accumulate = accumulate_t<Product>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const Accumulate largest =
      tile.scores_low != nullptr ? attention_scores<Product, true>(tile) : attention_scores<Product, false>(tile);
  Accumulate* __restrict__ row = tile.row;
  Accumulate sums[lanes] = {};
  for (int64_t index = 0; index < tile.seen; index += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      row[index + lane] = exponential(row[index + lane] - largest);
      sums[lane] += row[index + lane];
    }
  }
  Product* __restrict__ weights = tile.scores;
  for (int64_t index = 0; index < tile.seen; ++index) weights[index] = store<Product>(row[index]);
  for (int64_t index = tile.seen; index < tile.count; ++index) weights[index] = store<Product>(Accumulate(0));
  const Accumulate sum = sum_of_lanes(sums);
  return {sum, largest + static_cast<Accumulate>(logarithm(static_cast<double>(sum)))};
}

template <class Element>
void attention_divide(
    const product_t<Element>* __restrict__ product, const product_t<Element>* __restrict__ low,
    accumulate_t<Element> sum, Element* __restrict__ output, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  const Accumulate factor = Accumulate(1) / sum;
  for (int64_t column = 0; column < width; ++column) {
    Accumulate value = load(product[column]);
    if (low != nullptr) value = sum_of_parts(value, Accumulate(load(low[column])));
    output[column] = store<Element>(value * factor);
  }
}

template <class Element>
accumulate_t<Element> attention_dot(const Element* __restrict__ x, const Element* __restrict__ y, int64_t count) {
  using Accumulate = accumulate_t<Element>;
  constexpr int64_t lanes = kLanes<Accumulate>;
  const int64_t whole = count - count % lanes;
  Accumulate sums[lanes] = {};
  for (int64_t index = 0; index < whole; index += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += Accumulate(load(x[index + lane])) * Accumulate(load(y[index + lane]));
    }
  }
  for (int64_t index = whole; index < count; ++index) {
    sums[index - whole] += Accumulate(load(x[index])) * Accumulate(load(y[index]));
  }
  return sum_of_lanes(sums);
}

template <class Element>
constexpr AttentionKernels<Element> attention_functions = {
    attention_tile<product_t<Element>>, attention_softmax<product_t<Element>>, attention_divide<Element>,
    attention_dot<Element>};

}  // namespace

constinit const PerElement<AttentionKernels> attention_kernels = BURNLIKE_PER_ELEMENT(attention_functions);
