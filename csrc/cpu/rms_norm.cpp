// RMS normalization on the CPU: checks, outputs and threads. The arithmetic is in isa/rms_norm.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

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

// Gamma as numbers of the accumulation type: the tensor's own, or converted into `storage`.
template <class Accumulate>
const Accumulate* values_of(const Tensor& gamma, std::vector<Accumulate>& storage) {
  if (element_kind(gamma) == kind_of<Accumulate>) return data_of<Accumulate>(gamma);
  storage.resize(gamma.numel());
  with_element_type(element_kind(gamma), [&](auto element) {
    using Element = decltype(element);
    const Element* values = data_of<Element>(gamma);
    for (size_t index = 0; index < storage.size(); ++index) storage[index] = Accumulate(load(values[index]));
  });
  return storage.data();
}

Tensor rms_norm(const Tensor& x_any, const Tensor& gamma_any, double epsilon) {
  forward_calls.add();
  const int64_t rows = rms_norm_rows(x_any, gamma_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor gamma = as_contiguous(gamma_any);
  const Tensor y = new_like(x);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    if (rows == 0) return;
    std::vector<Accumulate> storage;
    const Accumulate* gamma_data = values_of<Accumulate>(gamma, storage);
    const int64_t width = gamma.size(0);
    const auto forward = kernels_for(element).forward;
    const Element* x_data = data_of<Element>(x);
    Element* y_data = mutable_data_of<Element>(y);
    const auto run = [&](int64_t begin, int64_t end) {
      forward(x_data, gamma_data, y_data, begin, end, width, epsilon);
    };
    if (rows * width <= kGrainValues) return run(0, rows);
    torch::stable::parallel_for(0, rows, std::max<int64_t>(1, kGrainValues / width), run);
  });
  return y;
}

// The gradient of gamma is summed in blocks of rows whose number depends on the shape alone, and the blocks in their
// order: the bits are the same for any number of threads.
constexpr int64_t kBlockRows = 16;
constexpr int64_t kMaxBlocks = 64;

std::tuple<Tensor, Tensor> rms_norm_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& gamma_any, double epsilon) {
  backward_calls.add();
  const int64_t rows = rms_norm_rows(x_any, gamma_any);
  check_rms_norm_grad(grad_any, x_any);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor gamma = as_contiguous(gamma_any);
  const Tensor grad_x = new_like(x);
  const Tensor grad_gamma = new_like(gamma);
  const int64_t width = gamma.size(0);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    std::vector<Accumulate> storage;
    const Accumulate* gamma_data = values_of<Accumulate>(gamma, storage);
    const int64_t blocks = std::clamp<int64_t>(rows / kBlockRows, 1, kMaxBlocks);
    std::vector<Accumulate> sums(blocks * width);
    const auto backward = kernels_for(element).backward;
    const Element* grad_data = data_of<Element>(grad);
    const Element* x_data = data_of<Element>(x);
    Element* grad_x_data = mutable_data_of<Element>(grad_x);
    const auto run = [&](int64_t first_block, int64_t last_block) {
      for (int64_t block = first_block; block < last_block; ++block) {
        const int64_t begin = rows * block / blocks;
        const int64_t end = rows * (block + 1) / blocks;
        Accumulate* sum = sums.data() + block * width;
        backward(grad_data, x_data, gamma_data, grad_x_data, sum, begin, end, width, epsilon);
      }
    };
    if (rows * width <= kGrainValues) {
      run(0, blocks);
    } else {
      torch::stable::parallel_for(0, blocks, 1, run);
    }
    for (int64_t block = 1; block < blocks; ++block) {
      for (int64_t column = 0; column < width; ++column) sums[column] += sums[block * width + column];
    }
    with_element_type(element_kind(gamma), [&](auto weight) {
      using Gamma = decltype(weight);
      Gamma* grad_gamma_data = mutable_data_of<Gamma>(grad_gamma);
      for (int64_t column = 0; column < width; ++column) {
        grad_gamma_data[column] = store<Gamma>(static_cast<accumulate_t<Gamma>>(sums[column]));
      }
    });
  });
  return {grad_x, grad_gamma};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("rms_norm", TORCH_BOX(&burnlike::cpu::rms_norm));
  library.impl("rms_norm_backward", TORCH_BOX(&burnlike::cpu::rms_norm_backward));
}
