// The steps of an LSTM: products of the rows of a step with a packed weight, and the gates of a row.

namespace {

// Sums of so many rows and columns stay in registers, beside the columns of one row of the weight.
constexpr int kStepRows = kVector == 16 ? 6 : 3;
constexpr int kStepVectors = 4;
constexpr int64_t kStepPanel = kStepVectors * kVector;
// Rows of the weight that are multiplied before the next rows of x are: the first cache holds their part of a panel.
constexpr int64_t kStepDepth = 128;

int64_t step_panels(int64_t columns) { return (columns + kStepPanel - 1) / kStepPanel; }

int64_t step_packed_size(int64_t depth, int64_t columns) {
  return step_panels(columns) * kStepPanel * (depth + depth % 2);
}

// Panels of columns, each by depth; in pairs of it as VDPBF16PS takes them. Zeros beyond the weight.
template <class Element>
void step_pack(
    const Element* weight, int64_t down, int64_t right, int64_t depth, int64_t columns, bool in_pairs, Element* packed,
    int64_t begin, int64_t end) {
  const int64_t together = in_pairs ? 2 : 1;
  const int64_t deep = in_pairs ? depth + depth % 2 : depth;
  for (int64_t panel = begin; panel < end; ++panel) {
    Element* target = packed + panel * kStepPanel * deep;
    for (int64_t first = 0; first < deep; first += together) {
      for (int64_t column = 0; column < kStepPanel; ++column) {
        const int64_t place = panel * kStepPanel + column;
        for (int64_t part = 0; part < together; ++part) {
          const bool is_inside = place < columns && first + part < depth;
          *target++ = is_inside ? weight[(first + part) * down + place * right] : Element{};
        }
      }
    }
  }
}

template <int kRows, class Element>
void step_product_strip(
    const Element* x, int64_t x_stride, const Element* packed, float* sums, int64_t sums_stride, int64_t depth,
    bool adds) {
  FloatVector sum[kRows][kStepVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      sum[row][part] = adds ? load_vector(sums + row * sums_stride + part * kVector) : FloatVector{};
    }
  }
  for (int64_t index = 0; index < depth; ++index) {
    FloatVector weights[kStepVectors];
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      weights[part] = load_vector(packed + index * kStepPanel + part * kVector);
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const FloatVector value = all_of(float_of(x[row * x_stride + index]));
#pragma GCC unroll 4
      for (int part = 0; part < kStepVectors; ++part) {
        sum[row][part] = multiply_add(weights[part], value, sum[row][part]);
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      store_vector(sums + row * sums_stride + part * kVector, sum[row][part]);
    }
  }
}

#if defined(BURNLIKE_BFLOAT16_512)

template <int kRows>
BURNLIKE_BFLOAT16_512 void step_product_pairs(
    const BFloat16* x, int64_t x_stride, const BFloat16* packed, float* sums, int64_t sums_stride, int64_t depth,
    bool adds) {
  __m512 sum[kRows][kStepVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      sum[row][part] = adds ? _mm512_loadu_ps(sums + row * sums_stride + part * kVector) : _mm512_setzero_ps();
    }
  }
  for (int64_t index = 0; index < depth; index += 2) {
    __m512bh weights[kStepVectors];
#pragma GCC unroll 4
    for (int part = 0; part < kStepVectors; ++part) {
      weights[part] = __m512bh(_mm512_loadu_si512(packed + index * kStepPanel + part * 2 * kVector));
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      int pair;
      __builtin_memcpy(&pair, x + row * x_stride + index, sizeof(pair));
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
      _mm512_storeu_ps(sums + row * sums_stride + part * kVector, sum[row][part]);
    }
  }
}

#endif

template <class Element>
using StepStrip = void (*)(const Element*, int64_t, const Element*, float*, int64_t, int64_t, bool);

template <class Element>
StepStrip<Element> step_strip(int64_t rows, [[maybe_unused]] bool in_pairs) {
  static constexpr StepStrip<Element> functions[] = {
      step_product_strip<1, Element>, step_product_strip<2, Element>, step_product_strip<3, Element>,
      step_product_strip<4, Element>, step_product_strip<5, Element>, step_product_strip<6, Element>};
#if defined(BURNLIKE_BFLOAT16_512)
  if constexpr (sizeof(Element) == 2) {
    static constexpr StepStrip<Element> pairs[] = {
        step_product_pairs<1>, step_product_pairs<2>, step_product_pairs<3>,
        step_product_pairs<4>, step_product_pairs<5>, step_product_pairs<6>};
    if (in_pairs) return pairs[rows - 1];
  }
#endif
  return functions[rows - 1];
}

template <class Element>
void step_product(const StepProduct<Element>& product) {
  const int64_t groups = (product.rows + kStepRows - 1) / kStepRows;
  const int64_t panels = step_panels(product.columns);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const Element* packed = product.packed + panel * kStepPanel * product.depth;
    for (int64_t first = 0; first < product.depth; first += kStepDepth) {
      const int64_t depth = product.depth - first < kStepDepth ? product.depth - first : kStepDepth;
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t row = product.rows * group / groups;
        const int64_t rows = product.rows * (group + 1) / groups - row;
        step_strip<Element>(rows, product.has_bfloat16_products)(
            product.x.row(row) + first, product.x.stride, packed + first * kStepPanel,
            product.sums.row(row) + panel * kStepPanel, product.sums.stride, depth, first > 0);
      }
    }
  }
}

// Each gate is a pointer of its own: of places in one, GCC does not know that they are apart, and vectorizes none.
template <class Element>
__attribute__((noinline)) void lstm_sigmoid(const float* __restrict__ sums, Element* __restrict__ gate, int64_t size) {
  for (int64_t unit = 0; unit < size; ++unit) gate[unit] = store<Element>(sigmoid(load(gate[unit]) + sums[unit]));
}

// Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000, eq. 1-7.
template <class Element>
__attribute__((noinline)) void lstm_cell(
    const float* __restrict__ sums, const Element* __restrict__ input, const Element* __restrict__ forget,
    Element* __restrict__ candidate, const float* __restrict__ before, float* __restrict__ cell, int64_t size) {
  for (int64_t unit = 0; unit < size; ++unit) {
    const float value = hyperbolic_tangent(load(candidate[unit]) + sums[unit]);
    cell[unit] = load(forget[unit]) * before[unit] + load(input[unit]) * value;
    candidate[unit] = store<Element>(value);
  }
}

template <class Element>
__attribute__((noinline)) void lstm_hidden(
    const Element* __restrict__ output, const float* __restrict__ cell, Element* __restrict__ hidden, int64_t size) {
  for (int64_t unit = 0; unit < size; ++unit) {
    hidden[unit] = store<Element>(load(output[unit]) * hyperbolic_tangent(cell[unit]));
  }
}

template <class Element>
void lstm_forward(const LstmForward<Element>& step) {
  const int64_t size = step.size;
  Element* input = step.gates;
  Element* output = step.gates + 3 * size;
  lstm_sigmoid(step.sums, input, 2 * size);
  lstm_sigmoid(step.sums + 3 * size, output, size);
  lstm_cell(step.sums + 2 * size, input, input + size, input + 2 * size, step.before, step.cell, size);
  lstm_hidden(output, step.cell, step.hidden, size);
}

template <class Element>
__attribute__((noinline)) void lstm_gradients(
    const float* __restrict__ sums, const Element* __restrict__ grad, const Element* __restrict__ inputs,
    const Element* __restrict__ forgets, const Element* __restrict__ candidates, const Element* __restrict__ outputs,
    const float* __restrict__ before, const float* __restrict__ cell, float* __restrict__ grad_cell,
    Element* __restrict__ grad_inputs, Element* __restrict__ grad_forgets, Element* __restrict__ grad_candidates,
    Element* __restrict__ grad_outputs, int64_t size) {
  for (int64_t unit = 0; unit < size; ++unit) {
    const float input = load(inputs[unit]), forget = load(forgets[unit]);
    const float candidate = load(candidates[unit]), output = load(outputs[unit]);
    const float of_hidden = sums[unit] + load(grad[unit]);
    const float of_tanh = hyperbolic_tangent(cell[unit]);
    const float of_cell = grad_cell[unit] + of_hidden * output * (1.0f - of_tanh * of_tanh);
    grad_inputs[unit] = store<Element>(of_cell * candidate * (input * (1.0f - input)));
    grad_forgets[unit] = store<Element>(of_cell * before[unit] * (forget * (1.0f - forget)));
    grad_candidates[unit] = store<Element>(of_cell * input * (1.0f - candidate * candidate));
    grad_outputs[unit] = store<Element>(of_hidden * of_tanh * (output * (1.0f - output)));
    grad_cell[unit] = of_cell * forget;
  }
}

template <class Element>
void lstm_backward(const LstmBackward<Element>& step) {
  const int64_t size = step.size;
  const Element* gates = step.gates;
  Element* grads = step.grad_gates;
  lstm_gradients(
      step.sums, step.grad, gates, gates + size, gates + 2 * size, gates + 3 * size, step.before, step.cell,
      step.grad_cell, grads, grads + size, grads + 2 * size, grads + 3 * size, size);
}

template <class Element>
constexpr LstmKernels<Element> lstm_functions = {
    step_packed_size, step_pack<Element>, step_product<Element>, lstm_forward<Element>, lstm_backward<Element>};

}  // namespace

constinit const LstmTable lstm_kernels = {lstm_functions<float>, lstm_functions<BFloat16>, kStepPanel};
