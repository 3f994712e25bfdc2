// Products of matrices in memory, by torch's kernels, which use what the processor has for it.
#pragma once

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

#include "burnlike/tensors.h"

namespace burnlike::cpu {

// Matrices of `rows x columns`, one behind the other, as a tensor without memory of its own.
template <class Element>
Tensor matrices(Element* data, int64_t count, int64_t rows, int64_t columns, bool transposed = false) {
  const int64_t sizes[] = {count, transposed ? columns : rows, transposed ? rows : columns};
  const int64_t strides[] = {rows * columns, transposed ? 1 : columns, transposed ? columns : 1};
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_create_tensor_from_blob(
      data, 3, sizes, strides, 0, dtype_code(kind_of<Element>), aoti_torch_device_type_cpu(), 0, &handle));
  return Tensor(handle);
}

// The same, each matrix transposed.
template <class Element>
Tensor transposed_matrices(Element* data, int64_t count, int64_t rows, int64_t columns) {
  return matrices(data, count, rows, columns, true);
}

// product = x y. The dispatcher is not asked, so autocast does not change what is multiplied.
inline void multiply(const Tensor& x, const Tensor& y, const Tensor& product) {
  TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_bmm_out(product.get(), x.get(), y.get()));
}

}  // namespace burnlike::cpu
