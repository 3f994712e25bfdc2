// The steps of an LSTM: products of the rows of a step with a packed weight, and the gates of a row.

namespace {

// So many rows and columns of sums stay in registers, beside the columns of one row of the weight.
constexpr int kStepRows = kVector == 16 ? 6 : 3;
constexpr int kStepVectors = 4;
constexpr int64_t kStepPanel = kStepVectors * kVector;
// Rows of the weight that are multiplied before the next rows of x are: their part of a panel, of half of the nearest
// cache, stays there beside the rows of x, and their sums are added to those before, which rounds less than one long
// sum. Of 128 rows both are as large as that cache, and a product takes 1.4 times as long (Zen 5).
constexpr int64_t kStepDepth = 96;
constexpr int64_t kLineBytes = 64;

// Rows of the weight that are packed together where they lie beside each other in memory: so many share its lines.
constexpr int64_t kPackedRows = 16;

template <class Element>
inline void step_pack_rows(
    const Element* source, int64_t down, int64_t right, accumulate_t<Element>* __restrict__ target, int64_t rows,
    int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < width; ++column) {
      target[row * kStepPanel + column] = load(source[row * down + column * right]);
    }
  }
}

// Panels [begin, end) of columns, each `[depth, kStepPanel]`, with zeros beyond the weight.
template <class Element>
void step_pack(const StepWeight<Element>& weight, accumulate_t<Element>* packed, int64_t begin, int64_t end) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t first = panel * kStepPanel;
    const int64_t rest = weight.columns - first;
    const int64_t width = rest < kStepPanel ? rest : kStepPanel;
    Accumulate* target = packed + panel * kStepPanel * weight.depth;
    for (int64_t place = 0; place < (width < kStepPanel ? weight.depth * kStepPanel : 0); ++place) target[place] = 0;
    for (int64_t row = 0; row < weight.depth; row += kPackedRows, target += kPackedRows * kStepPanel) {
      const Element* source = weight.data + row * weight.down + first * weight.right;
      const int64_t rows = row + kPackedRows < weight.depth ? kPackedRows : weight.depth - row;
      if (weight.right == 1) {
        step_pack_rows(source, weight.down, 1, target, rows, width);
      } else {
        for (int64_t column = 0; column < width; ++column) {
          step_pack_rows(source + column * weight.right, weight.down, 0, target + column, rows, 1);
        }
      }
    }
  }
}

// Two rows as places of pairs, as VDPBF16PS takes them; `lower` may be no row, null.
inline void step_pair_rows(
    const BFloat16* upper, const BFloat16* lower, uint32_t* __restrict__ target, int64_t columns) {
  const uint32_t mask = lower == nullptr ? 0 : 0xffff0000U;
  lower = lower == nullptr ? upper : lower;
  for (int64_t column = 0; column < columns; ++column) {
    target[column] = upper[column].bits | (uint32_t{lower[column].bits} << 16 & mask);
  }
}

// The same as `step_pack` in pairs: `[depth / 2, kStepPanel, 2]`.
void step_pack_pairs(const StepWeight<BFloat16>& weight, float* packed, int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t first = panel * kStepPanel;
    const int64_t width = weight.columns - first < kStepPanel ? weight.columns - first : kStepPanel;
    float* target = packed + panel * kStepPanel * ((weight.depth + 1) / 2);
    for (int64_t row = 0; row < weight.depth; row += 2, target += kStepPanel) {
      const BFloat16* upper = weight.data + row * weight.down + first * weight.right;
      const BFloat16* lower = row + 1 < weight.depth ? upper + weight.down : nullptr;
      uint32_t pairs[kStepPanel] = {};
      if (weight.right == 1) {
        step_pair_rows(upper, lower, pairs, width);
      } else {
        for (int64_t column = 0; column < width; ++column) {
          const int64_t place = column * weight.right;
          step_pair_rows(upper + place, lower == nullptr ? nullptr : lower + place, pairs + column, 1);
        }
      }
      __builtin_memcpy(target, pairs, sizeof(pairs));
    }
  }
}

template <class Element>
void step_pack_any(const StepWeight<Element>& weight, accumulate_t<Element>* packed, int64_t begin, int64_t end) {
  if constexpr (std::is_same_v<Element, BFloat16>) {
    if (weight.in_pairs) return step_pack_pairs(weight, packed, begin, end);
  }
  step_pack(weight, packed, begin, end);
}

template <int kRows, class Element>
void step_strip(
    const Element* x, int64_t x_stride, int64_t x_step, const float* packed, float* sums, int64_t sums_stride,
    int64_t depth, bool adds) {
  vector_sums<kRows, kStepVectors>(x, x_stride, x_step, packed, kStepPanel, sums, sums_stride, depth, adds);
}

// In float64, in which few train: sums stay in memory.
template <int kRows>
void step_strip(
    const double* x, int64_t x_stride, int64_t x_step, const double* packed, double* sums, int64_t sums_stride,
    int64_t depth, bool adds) {
  for (int row = 0; row < kRows; ++row) {
    double* __restrict__ sum = sums + row * sums_stride;
    for (int64_t column = 0; column < (adds ? 0 : kStepPanel); ++column) sum[column] = 0.0;
    for (int64_t index = 0; index < depth; ++index) {
      const double value = x[row * x_stride + index * x_step];
      const double* __restrict__ weights = packed + index * kStepPanel;
      for (int64_t column = 0; column < kStepPanel; ++column) sum[column] += weights[column] * value;
    }
  }
}

#if defined(BURNLIKE_BFLOAT16_512)

// As `vector_sums`, of two products at a time. Apart from it, since it has an instruction set of its own.
template <int kRows>
BURNLIKE_BFLOAT16_512 void step_strip_of_pairs(
    const BFloat16* x, int64_t x_stride, int64_t x_step, const float* packed, float* sums, int64_t sums_stride,
    int64_t depth, bool adds) {
  __m512 sum[kRows][kStepVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      sum[row][part] = _mm512_setzero_ps();
    }
  }
  for (int64_t index = 0; index < depth; index += 2) {
    __m512bh weights[kStepVectors];
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      weights[part] = __m512bh(_mm512_loadu_si512(packed + index / 2 * kStepPanel + part * kVector));
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      int pair;
      __builtin_memcpy(&pair, x + row * x_stride + index * x_step, sizeof(pair));
      const __m512bh values = __m512bh(_mm512_set1_epi32(pair));
#pragma GCC unroll 4
      for (int part = 0; part < kStepVectors; ++part) {
        sum[row][part] = _mm512_dpbf16_ps(sum[row][part], weights[part], values);
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      float* target = sums + row * sums_stride + part * kVector;
      if (adds) sum[row][part] = _mm512_add_ps(_mm512_loadu_ps(target), sum[row][part]);
      _mm512_storeu_ps(target, sum[row][part]);
    }
  }
}

#endif

template <class Element, class Accumulate = accumulate_t<Element>>
using StepStrip = void (*)(const Element*, int64_t, int64_t, const Accumulate*, Accumulate*, int64_t, int64_t, bool);

template <class Element>
StepStrip<Element> strip_of([[maybe_unused]] bool in_pairs, int64_t rows) {
#if defined(BURNLIKE_BFLOAT16_512)
  if constexpr (std::is_same_v<Element, BFloat16>) {
    static constexpr StepStrip<BFloat16> of_pairs[] = {step_strip_of_pairs<1>, step_strip_of_pairs<2>,
                                                       step_strip_of_pairs<3>, step_strip_of_pairs<4>,
                                                       step_strip_of_pairs<5>, step_strip_of_pairs<6>};
    if (in_pairs) return of_pairs[rows - 1];
  }
#endif
  static constexpr StepStrip<Element> strips[] = {step_strip<1>, step_strip<2>, step_strip<3>,
                                                  step_strip<4>, step_strip<5>, step_strip<6>};
  return strips[rows - 1];
}

inline int64_t step_panels(int64_t columns) { return (columns + kStepPanel - 1) / kStepPanel; }

inline int64_t step_groups(int64_t rows) { return (rows + kStepRows - 1) / kStepRows; }

// Asks for the lines of so many rows, into the second cache (2), and goes on behind them.
inline void step_ask(StepAhead& ahead, int64_t rows) {
  for (; rows > 0 && ahead.rows > 0; --rows, --ahead.rows, ahead.data += ahead.stride) {
    for (int64_t byte = 0; byte < ahead.bytes; byte += kLineBytes) __builtin_prefetch(ahead.data + byte, 0, 2);
  }
}

// Rows of x, whose values in one row are `x_step` apart, with all panels of a part of the weight; after each strip asks
// for so many rows `ahead`.
template <class Element>
void step_part(
    const StepProduct<Element>& product, const Element* x, int64_t x_stride, int64_t x_step, int64_t first,
    int64_t depth, StepAhead& ahead, int64_t asked) {
  const int64_t groups = step_groups(product.rows);
  const int64_t deep = product.in_pairs ? (product.depth + 1) / 2 : product.depth;
  const int64_t above = product.in_pairs ? first / 2 : first;
  for (int64_t column = 0; column < product.columns; column += kStepPanel) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t row = product.rows * group / groups;
      const int64_t rows = product.rows * (group + 1) / groups - row;
      strip_of<Element>(product.in_pairs, rows)(
          x + row * x_stride, x_stride, x_step, product.packed + column * deep + above * kStepPanel,
          product.sums.data + row * product.sums.stride + column, product.sums.stride, depth,
          product.adds || first > 0);
      step_ask(ahead, asked);
    }
  }
}

template <class Element>
void step_product(const StepProduct<Element>& product) {
  const int64_t parts = (product.depth + kStepDepth - 1) / kStepDepth;
  StepAhead ahead = product.ahead;
  // A share after each strip, of which an empty product has none.
  const int64_t asked = ahead.rows / (parts * step_panels(product.columns) * step_groups(product.rows) + 1) + 1;
  for (int64_t first = 0; first < product.depth; first += kStepDepth) {
    const int64_t rest = product.depth - first;
    const int64_t depth = rest < kStepDepth ? rest : kStepDepth;
    step_part(product, product.x.data + first, product.x.stride, 1, first, depth, ahead, asked);
  }
}

// The same of x transposed: its row of so many columns is a value of each row of the product. Its lines lie far apart,
// so that no processor asks for the next ones by itself.
template <class Element>
void step_outer(const StepProduct<Element>& product) {
  alignas(64) Element tile[kStepDepth * kOuterRows];
  const int64_t together = product.in_pairs ? 2 : 1;
  const int64_t row_bytes = product.x.stride * static_cast<int64_t>(sizeof(Element));
  const int64_t asked = kStepDepth / (step_panels(product.columns) * step_groups(product.rows) + 1) + 1;
  for (int64_t first = 0; first < product.depth; first += kStepDepth) {
    const int64_t rest = product.depth - first;
    const int64_t depth = rest < kStepDepth ? rest : kStepDepth;
    for (int64_t index = 0; index < depth; index += together) {
      const Element* source = product.x.data + (first + index) * product.x.stride;
      Element* target = tile + index * product.rows;
      if constexpr (std::is_same_v<Element, BFloat16>) {
        if (product.in_pairs) {
          step_pair_rows(
              source, index + 1 < depth ? source + product.x.stride : nullptr, reinterpret_cast<uint32_t*>(target),
              product.rows);
          continue;
        }
      }
      __builtin_memcpy(target, source, product.rows * sizeof(Element));
    }
    // The rows of the next part, each with the line in which it ends, wherever it begins.
    StepAhead ahead{
        reinterpret_cast<const char*>(product.x.data + (first + depth) * product.x.stride),
        rest - depth < kStepDepth ? rest - depth : kStepDepth, row_bytes,
        product.rows * static_cast<int64_t>(sizeof(Element)) + kLineBytes - 1};
    step_part(product, tile, together, product.rows, first, depth, ahead, asked);
  }
}

// Each gate is a pointer of its own: of places in one, GCC does not know that they are apart, and vectorizes none.
template <class Element, class Accumulate>
__attribute__((noinline)) void lstm_sigmoid(
    const Accumulate* __restrict__ sums, const Accumulate* __restrict__ bias, Element* __restrict__ gate,
    int64_t size) {
  for (int64_t unit = 0; unit < size; ++unit) gate[unit] = store<Element>(sigmoid(sums[unit] + bias[unit]));
}

// Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.
template <class Element, class Accumulate>
__attribute__((noinline)) void lstm_cell(
    const Accumulate* __restrict__ sums, const Accumulate* __restrict__ bias, const Element* __restrict__ input,
    const Element* __restrict__ forget, Element* __restrict__ candidate, const Accumulate* __restrict__ before,
    Accumulate* __restrict__ cell, int64_t size) {
  for (int64_t unit = 0; unit < size; ++unit) {
    const Accumulate value = hyperbolic_tangent(sums[unit] + bias[unit]);
    cell[unit] = load(forget[unit]) * before[unit] + load(input[unit]) * value;
    candidate[unit] = store<Element>(value);
  }
}

template <class Element, class Accumulate>
__attribute__((noinline)) void lstm_hidden(
    const Element* __restrict__ output, const Accumulate* __restrict__ cell, Element* __restrict__ hidden,
    int64_t size) {
  for (int64_t unit = 0; unit < size; ++unit) {
    hidden[unit] = store<Element>(load(output[unit]) * hyperbolic_tangent(cell[unit]));
  }
}

template <class Element>
void lstm_forward(const LstmForward<Element>& step) {
  const int64_t size = step.size;
  Element* input = step.gates;
  Element* output = step.gates + 3 * size;
  lstm_sigmoid(step.sums, step.bias, input, 2 * size);
  lstm_sigmoid(step.sums + 3 * size, step.bias + 3 * size, output, size);
  lstm_cell(
      step.sums + 2 * size, step.bias + 2 * size, input, input + size, input + 2 * size, step.before, step.cell, size);
  lstm_hidden(output, step.cell, step.hidden, size);
}

// Each gate becomes the gradient of what it was made of.
template <class Element, class Accumulate>
__attribute__((noinline)) void lstm_gradients(
    const Accumulate* __restrict__ sums, const Element* __restrict__ grad, Element* __restrict__ inputs,
    Element* __restrict__ forgets, Element* __restrict__ candidates, Element* __restrict__ outputs,
    const Accumulate* __restrict__ before, const Accumulate* __restrict__ cell, Accumulate* __restrict__ grad_cell,
    int64_t size) {
  constexpr Accumulate one = 1;
  for (int64_t unit = 0; unit < size; ++unit) {
    const Accumulate input = load(inputs[unit]), forget = load(forgets[unit]);
    const Accumulate candidate = load(candidates[unit]), output = load(outputs[unit]);
    const Accumulate of_hidden = sums[unit] + load(grad[unit]);
    const Accumulate of_tanh = hyperbolic_tangent(cell[unit]);
    const Accumulate of_cell = grad_cell[unit] + of_hidden * output * (one - of_tanh * of_tanh);
    inputs[unit] = store<Element>(of_cell * candidate * (input * (one - input)));
    forgets[unit] = store<Element>(of_cell * before[unit] * (forget * (one - forget)));
    candidates[unit] = store<Element>(of_cell * input * (one - candidate * candidate));
    outputs[unit] = store<Element>(of_hidden * of_tanh * (output * (one - output)));
    grad_cell[unit] = of_cell * forget;
  }
}

template <class Element, class Accumulate>
__attribute__((noinline)) void lstm_add(
    const Element* __restrict__ values, Accumulate* __restrict__ sums, int64_t count) {
  for (int64_t index = 0; index < count; ++index) sums[index] += load(values[index]);
}

template <class Element>
void lstm_backward(const LstmBackward<Element>& step) {
  const int64_t size = step.size;
  Element* gates = step.gates;
  lstm_gradients(
      step.sums, step.grad, gates, gates + size, gates + 2 * size, gates + 3 * size, step.before, step.cell,
      step.grad_cell, size);
  lstm_add(gates, step.grad_bias, 4 * size);
}

template <class Element>
constexpr LstmKernels<Element> lstm_functions = {kStepPanel,          step_pack_any<Element>, step_product<Element>,
                                                 step_outer<Element>, lstm_forward<Element>,  lstm_backward<Element>};

}  // namespace

constinit const PerElement<LstmKernels> lstm_kernels = BURNLIKE_PER_ELEMENT(lstm_functions);
