// Gated linear units, row by row. A row is a function that is not inlined: otherwise GCC asks before the first row
// whether rows of one tensor lie among those of another, as halves of a matrix do, and then vectorizes none.

namespace {

template <class Element, class Activation>
__attribute__((noinline)) void glu_forward_row(
    const Element* __restrict__ gate, const Element* __restrict__ up, Element* __restrict__ y, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t column = 0; column < width; ++column) {
    y[column] = store<Element>(glu_output<Activation>(Accumulate(load(gate[column])), Accumulate(load(up[column]))));
  }
}

template <class Element, class Activation>
__attribute__((noinline)) void glu_backward_row(
    const Element* __restrict__ grad, const Element* __restrict__ gate, const Element* __restrict__ up,
    Element* __restrict__ grad_gate, Element* __restrict__ grad_up, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t column = 0; column < width; ++column) {
    const GluGrads<Accumulate> grads = glu_grads<Activation>(
        Accumulate(load(grad[column])), Accumulate(load(gate[column])), Accumulate(load(up[column])));
    grad_gate[column] = store<Element>(grads.gate);
    grad_up[column] = store<Element>(grads.up);
  }
}

template <class Element, class Activation>
void glu_forward_rows(
    const RowPlaces<const Element>& gate, const RowPlaces<const Element>& up, Element* y, int64_t begin, int64_t end,
    int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    glu_forward_row<Element, Activation>(
        gate.data + row * gate.stride, up.data + row * up.stride, y + row * width, width);
  }
}

template <class Element, class Activation>
void glu_backward_rows(
    const RowPlaces<const Element>& grad, const RowPlaces<const Element>& gate, const RowPlaces<const Element>& up,
    const RowPlaces<Element>& grad_gate, const RowPlaces<Element>& grad_up, int64_t begin, int64_t end, int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    glu_backward_row<Element, Activation>(
        grad.data + row * grad.stride, gate.data + row * gate.stride, up.data + row * up.stride,
        grad_gate.data + row * grad_gate.stride, grad_up.data + row * grad_up.stride, width);
  }
}

template <class Element, class Activation>
constexpr GluKernels<Element> glu_kernels = {
    glu_forward_rows<Element, Activation>, glu_backward_rows<Element, Activation>};

template <class Element>
constexpr GluKernels<Element> swiglu_functions = glu_kernels<Element, Silu>;

template <class Element>
constexpr GluKernels<Element> geglu_functions = glu_kernels<Element, Gelu>;

template <class Element>
constexpr GluKernels<Element> tanh_geglu_functions = glu_kernels<Element, TanhGelu>;

}  // namespace

constinit const PerElement<GluKernels> swiglu_kernels = BURNLIKE_PER_ELEMENT(swiglu_functions);
constinit const PerElement<GluKernels> geglu_kernels = BURNLIKE_PER_ELEMENT(geglu_functions);
constinit const PerElement<GluKernels> tanh_geglu_kernels = BURNLIKE_PER_ELEMENT(tanh_geglu_functions);
