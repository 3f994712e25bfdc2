// A matrix that is packed once for products with many rows, by the kernels of isa/lstm.inl.
#pragma once

#include <memory>

#include "burnlike/tensors.h"
#include "isa/lstm.h"
#include "rows.h"

namespace burnlike::cpu {

// A matrix `[depth, columns]` of any strides, packed for products with rows.
template <class Element>
class PackedProduct {
 public:
  using Accumulate = accumulate_t<Element>;

  // In pairs, sums are of an even depth: rows are read to their ends.
  PackedProduct(const Tensor& matrix, int depth_dim, bool may_have_pairs)
      : kernels_(lstm_kernels()(Element{})),
        weight_{
            data_of<Element>(matrix),
            matrix.stride(depth_dim),
            matrix.stride(1 - depth_dim),
            matrix.size(depth_dim),
            matrix.size(1 - depth_dim),
            kind_of<Element> == ElementKind::kBFloat16 && isa() == Isa::kAvx512Bf16 && may_have_pairs},
        panels_((weight_.columns + kernels_.panel - 1) / kernels_.panel),
        packed_(new Accumulate[panels_ * kernels_.panel * weight_.depth]) {
    for_rows(panels_, kernels_.panel * weight_.depth, [&](int64_t begin, int64_t end) {
      kernels_.pack(weight_, packed_.get(), begin, end);
    });
  }

  // Of a row of sums, which are of whole panels. Not a power of two, or rows would share lines of the caches.
  int64_t stride() const { return panels_ * kernels_.panel + 16; }

  void run(
      const Element* x, int64_t x_stride, Accumulate* sums, int64_t rows, bool adds = false,
      const StepAhead& ahead = {}) const {
    kernels_.product(product(x, x_stride, sums, rows, adds, ahead));
  }

  // Of columns of x, at most kOuterRows.
  void run_outer(const Element* x, int64_t x_stride, Accumulate* sums, int64_t columns) const {
    kernels_.outer(product(x, x_stride, sums, columns));
  }

 private:
  StepProduct<Element> product(
      const Element* x, int64_t x_stride, Accumulate* sums, int64_t rows, bool adds = false,
      const StepAhead& ahead = {}) const {
    return {{x, x_stride}, packed_.get(), {sums, stride()}, rows, weight_.depth, weight_.columns, weight_.in_pairs,
            adds,          ahead};
  }

  const LstmKernels<Element>& kernels_;
  StepWeight<Element> weight_;
  int64_t panels_;
  std::unique_ptr<Accumulate[]> packed_;
};

}  // namespace burnlike::cpu
