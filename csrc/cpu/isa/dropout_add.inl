// residual + dropout(x): the values of one block of random bits at a time. `lane` is the place of the first in it.

namespace {

template <class Element, class Wide>
__attribute__((noinline)) void dropout_add_forward_block(
    const Element* __restrict__ x, const Wide* __restrict__ residual, Wide* __restrict__ y, uint32_t block_key,
    uint32_t lane, uint32_t count, const Dropping<accumulate_t<Element>>& drop) {
  using Accumulate = accumulate_t<Element>;
  const Dropping<Accumulate> own = drop;
  for (uint32_t index = 0; index < count; ++index) {
    const Accumulate factor = dropout_factor(block_key, lane + index, own);
    y[index] = store<Wide>(Accumulate(load(residual[index])) + Accumulate(load(x[index])) * factor);
  }
}

template <class Element, class Wide>
__attribute__((noinline)) void dropout_add_backward_block(
    const Wide* __restrict__ grad, Element* __restrict__ grad_x, uint32_t block_key, uint32_t lane, uint32_t count,
    const Dropping<accumulate_t<Element>>& drop) {
  using Accumulate = accumulate_t<Element>;
  const Dropping<Accumulate> own = drop;
  for (uint32_t index = 0; index < count; ++index) {
    const Accumulate factor = dropout_factor(block_key, lane + index, own);
    grad_x[index] = store<Element>(Accumulate(load(grad[index])) * factor);
  }
}

inline int64_t end_of_block(int64_t index, int64_t end) {
  const int64_t block_end = (index / kBlock + 1) * kBlock;
  return block_end < end ? block_end : end;
}

template <class Element, class Wide>
void dropout_add_forward(
    const Element* x, const Wide* residual, Wide* y, int64_t begin, int64_t end,
    const Dropping<accumulate_t<Element>>& drop) {
  for (int64_t index = begin; index < end;) {
    const int64_t stop = end_of_block(index, end);
    dropout_add_forward_block<Element, Wide>(
        x + index, residual + index, y + index, random_block_key(drop.key, index / kBlock),
        static_cast<uint32_t>(index % kBlock), static_cast<uint32_t>(stop - index), drop);
    index = stop;
  }
}

template <class Element, class Wide>
void dropout_add_backward(
    const Wide* grad, Element* grad_x, int64_t begin, int64_t end, const Dropping<accumulate_t<Element>>& drop) {
  for (int64_t index = begin; index < end;) {
    const int64_t stop = end_of_block(index, end);
    dropout_add_backward_block<Element, Wide>(
        grad + index, grad_x + index, random_block_key(drop.key, index / kBlock), static_cast<uint32_t>(index % kBlock),
        static_cast<uint32_t>(stop - index), drop);
    index = stop;
  }
}

template <class Element>
constexpr DropoutAddKernels<Element> dropout_add_functions = {
    dropout_add_forward<Element, Element>,
    dropout_add_forward<Element, accumulate_t<Element>>,
    dropout_add_backward<Element, Element>,
    dropout_add_backward<Element, accumulate_t<Element>>,
};

}  // namespace

constinit const PerElement<DropoutAddKernels> dropout_add_kernels = BURNLIKE_PER_ELEMENT(dropout_add_functions);
