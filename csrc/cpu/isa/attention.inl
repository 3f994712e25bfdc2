// Attention's backward pass between its products: weights and gradients of a tile of scores, and sums over heads' rows.

namespace {

template <bool kHasBias, class Accumulate>
void attention_tile_row(const AttentionTile<Accumulate>& tile, int64_t row, int64_t begin) {
  const int64_t offset = row * tile.columns;
  Accumulate* __restrict__ scores = tile.scores + offset;
  Accumulate* __restrict__ grads = tile.grads + offset;
  const Accumulate* __restrict__ bias = kHasBias ? tile.bias + offset : nullptr;
  const Accumulate* __restrict__ largest = tile.largest;
  const Accumulate* __restrict__ logarithms = tile.logarithms;
  const Accumulate* __restrict__ deltas = tile.deltas;
  const Accumulate scale = tile.scale;
  for (int64_t column = begin; column < tile.columns; ++column) {
    Accumulate score = scores[column] * scale;
    if constexpr (kHasBias) score += bias[column];
    const Accumulate weight = attention_weight(score, largest[column], logarithms[column]);
    scores[column] = weight;
    grads[column] = attention_grad_product(weight, grads[column], deltas[column], scale);
  }
}

template <class Accumulate>
void attention_tile(const AttentionTile<Accumulate>& tile) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    const int64_t hidden = row * tile.hidden_step;
    const int64_t begin = hidden < tile.columns ? hidden : tile.columns;
    for (int64_t column = 0; column < begin; ++column) {
      tile.scores[row * tile.columns + column] = Accumulate(0);
      tile.grads[row * tile.columns + column] = Accumulate(0);
    }
    tile.bias != nullptr ? attention_tile_row<true>(tile, row, begin) : attention_tile_row<false>(tile, row, begin);
  }
}

template <class Accumulate>
void attention_add(
    const AttentionTile<Accumulate>& tile, Accumulate* __restrict__ largest, Accumulate* __restrict__ sums) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    const int64_t hidden = row * tile.hidden_step;
    for (int64_t column = hidden < tile.columns ? hidden : tile.columns; column < tile.columns; ++column) {
      const int64_t place = row * tile.columns + column;
      Accumulate score = tile.scores[place] * tile.scale;
      if (tile.bias != nullptr) score += tile.bias[place];
      const Accumulate before = largest[column];
      const Accumulate after = score > before ? score : before;  // NaN is passed over: it comes back with the sum
      const Accumulate shift = after == -Accumulate(__builtin_inf()) ? Accumulate(0) : after;
      sums[column] = sums[column] * exponential(before - shift) + exponential(score - shift);
      largest[column] = after;
    }
  }
}

template <class Element>
accumulate_t<Element> attention_dot(const Element* x, const Element* y, int64_t count) {
  RowSum<accumulate_t<Element>> sum;
  add_row(sum, ProductRow<Element, Element>{x, y}, count);
  return sum.total();
}

template <class Element>
constexpr AttentionKernels<Element> attention_functions = {
    attention_tile<accumulate_t<Element>>, attention_add<accumulate_t<Element>>, attention_dot<Element>};

}  // namespace

constinit const PerElement<AttentionKernels> attention_kernels = BURNLIKE_PER_ELEMENT(attention_functions);
