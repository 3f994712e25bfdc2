// gelu(x + bias), row by row.

namespace {

template <class Activation, class Element>
void bias_gelu_forward_rows(
    const RowPlaces<const Element>& x_rows, const accumulate_t<Element>* __restrict__ bias, Element* y_rows,
    int64_t begin, int64_t end, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t row = begin; row < end; ++row) {
    const Element* __restrict__ x = x_rows.data + row * x_rows.stride;
    Element* __restrict__ y = y_rows + row * width;
    for (int64_t column = 0; column < width; ++column) {
      y[column] = store<Element>(bias_gelu_output<Activation>(Accumulate(load(x[column])), bias[column]));
    }
  }
}

template <class Activation, class Element>
void bias_gelu_backward_rows(
    const RowPlaces<const Element>& grad_rows, const RowPlaces<const Element>& x_rows,
    const accumulate_t<Element>* __restrict__ bias, Element* grad_x_rows, accumulate_t<Element>* __restrict__ sums,
    int64_t begin, int64_t end, int64_t width) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t row = begin; row < end; ++row) {
    const Element* __restrict__ grad = grad_rows.data + row * grad_rows.stride;
    const Element* __restrict__ x = x_rows.data + row * x_rows.stride;
    Element* __restrict__ grad_x = grad_x_rows + row * width;
    for (int64_t column = 0; column < width; ++column) {
      const Accumulate slope =
          bias_gelu_grad<Activation>(Accumulate(load(grad[column])), Accumulate(load(x[column])), bias[column]);
      grad_x[column] = store<Element>(slope);
      sums[column] += slope;
    }
  }
}

template <class Element>
constexpr BiasGeluKernels<Element> bias_gelu_functions = {
    bias_gelu_forward_rows<Gelu, Element>, bias_gelu_backward_rows<Gelu, Element>};

template <class Element>
constexpr BiasGeluKernels<Element> tanh_bias_gelu_functions = {
    bias_gelu_forward_rows<TanhGelu, Element>, bias_gelu_backward_rows<TanhGelu, Element>};

template <class Element>
constexpr BiasGeluKernels<Element> sigmoid_bias_gelu_functions = {
    bias_gelu_forward_rows<SigmoidGelu, Element>, bias_gelu_backward_rows<SigmoidGelu, Element>};

}  // namespace

constinit const PerElement<BiasGeluKernels> bias_gelu_kernels = BURNLIKE_PER_ELEMENT(bias_gelu_functions);
constinit const PerElement<BiasGeluKernels> tanh_bias_gelu_kernels = BURNLIKE_PER_ELEMENT(tanh_bias_gelu_functions);
constinit const PerElement<BiasGeluKernels> sigmoid_bias_gelu_kernels =
    BURNLIKE_PER_ELEMENT(sigmoid_bias_gelu_functions);
