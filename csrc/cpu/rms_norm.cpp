// RMS normalization on the CPU: checks, outputs and threads. The arithmetic is in isa/rms_norm.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <tuple>

#include "burnlike/calls.h"
#include "burnlike/rms_norm_check.h"
#include "kernels.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"rms_norm"};
CallCounter backward_calls{"rms_norm_backward"};

// Values below which a second thread costs more than it saves.
constexpr int64_t kGrainValues = 32768;

const RmsNormKernels<float>& kernels_for(float) { return kernels().rms_norm_float32; }
const RmsNormKernels<double>& kernels_for(double) { return kernels().rms_norm_float64; }
const RmsNormKernels<BFloat16>& kernels_for(BFloat16) { return kernels().rms_norm_bfloat16; }
const RmsNormKernels<Float16>& kernels_for(Float16) { return kernels().rms_norm_float16; }

Tensor rms_norm(const Tensor& x_any, const Tensor& gamma_any, double epsilon) {
  forward_calls.add();
  const int64_t rows = rms_norm_rows(x_any, gamma_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor y = new_like(x);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    if (rows == 0) return;
    const Tensor gamma = as_type(as_contiguous(gamma_any), scalar_type_of<Accumulate>());
    const int64_t width = gamma.size(0);
    const auto forward = kernels_for(element).forward;
    const Element* x_data = data_of<Element>(x);
    const Accumulate* gamma_data = data_of<Accumulate>(gamma);
    Element* y_data = mutable_data_of<Element>(y);
    const auto run = [&](int64_t begin, int64_t end) { forward(x_data, gamma_data, y_data, begin, end, width, epsilon); };
    if (rows * width <= kGrainValues) return run(0, rows);
    torch::stable::parallel_for(0, rows, std::max<int64_t>(1, kGrainValues / width), run);
  });
  return y;
}

// The gradient of gamma is summed in blocks of rows whose number depends on the shape alone, and the blocks in their order:
// the bits are the same for any number of threads.
constexpr int64_t kBlockRows = 16;
constexpr int64_t kMaxBlocks = 64;

std::tuple<Tensor, Tensor> rms_norm_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& gamma_any, double epsilon) {
  backward_calls.add();
  const int64_t rows = rms_norm_rows(x_any, gamma_any);
  check_rms_norm_grad(grad_any, x_any);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor grad_x = new_like(x);
  const int64_t width = gamma_any.size(0);
  Tensor grad_gamma = with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    constexpr ScalarType accumulate_dtype = scalar_type_of<Accumulate>();
    const Tensor gamma = as_type(as_contiguous(gamma_any), accumulate_dtype);
    const int64_t blocks = std::clamp<int64_t>(rows / kBlockRows, 1, kMaxBlocks);
    const Tensor sums = new_contiguous({blocks, width}, accumulate_dtype, x);
    const auto backward = kernels_for(element).backward;
    const Element* grad_data = data_of<Element>(grad);
    const Element* x_data = data_of<Element>(x);
    const Accumulate* gamma_data = data_of<Accumulate>(gamma);
    Element* grad_x_data = mutable_data_of<Element>(grad_x);
    Accumulate* sums_data = mutable_data_of<Accumulate>(sums);
    const auto run = [&](int64_t first_block, int64_t last_block) {
      for (int64_t block = first_block; block < last_block; ++block) {
        Accumulate* sum = sums_data + block * width;
        std::fill_n(sum, width, Accumulate(0));
        backward(
            grad_data, x_data, gamma_data, grad_x_data, sum, rows * block / blocks, rows * (block + 1) / blocks, width,
            epsilon);
      }
    };
    if (rows * width <= kGrainValues) {
      run(0, blocks);
    } else {
      torch::stable::parallel_for(0, blocks, 1, run);
    }
    for (int64_t block = 1; block < blocks; ++block) {
      for (int64_t column = 0; column < width; ++column) sums_data[column] += sums_data[block * width + column];
    }
    const Tensor total = new_contiguous({width}, accumulate_dtype, x);
    std::copy_n(sums_data, width, mutable_data_of<Accumulate>(total));
    return total;
  });
  return {grad_x, as_type(grad_gamma, gamma_any.scalar_type())};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("rms_norm", TORCH_BOX(&burnlike::cpu::rms_norm));
  library.impl("rms_norm_backward", TORCH_BOX(&burnlike::cpu::rms_norm_backward));
}
