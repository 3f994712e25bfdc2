// The kernels of RMS and layer normalization: one block of threads for one row, or for a run of rows backward. The
// arithmetic is in burnlike/norms.h.
#pragma once

#include "norms.h"
#include "row_packs.h"

namespace burnlike::cuda {

// What a forward pass needs of a row, for kernels that keep it in registers and for those that don't: `each(run)` calls
// `run` with each of the thread's values.
template <class Norm, class Accumulate, class Each>
__device__ __forceinline__ Accumulate row_mean(BlockSums<Accumulate>& block, Accumulate count, const Each& each) {
  Accumulate mean[1] = {};
  if constexpr (Norm::kCentered) {
    each([&](auto x) { mean[0] += load(x); });
    block.add(mean);
    mean[0] /= count;
  }
  return mean[0];
}

template <class Accumulate, class Each>
__device__ __forceinline__ Accumulate
row_scale(BlockSums<Accumulate>& block, Accumulate count, Accumulate epsilon, Accumulate mean, const Each& each) {
  Accumulate squares[1] = {};
  each([&](auto x) {
    const Accumulate centered = load(x) - mean;
    squares[0] += centered * centered;
  });
  block.add(squares);
  return norm_scale(squares[0], count, epsilon);
}

template <class Norm, int kPacks, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads)
    packed_forward_kernel(const NormForward<Element, Weight> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  using Values = RowValues<Element>;
  using Weights = Pack<Weight, kRowPack<Element>>;
  constexpr int lanes = kRowPack<Element>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const int64_t packs = pass.width / lanes;
  const Accumulate count = static_cast<Accumulate>(pass.width);
  const bool has_beta = Norm::kCentered && pass.beta != nullptr;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Values x[kPacks];
    Weights gamma[kPacks];
    Weights beta[kPacks];
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      x[index] = reinterpret_cast<const Values*>(pass.x)[row * packs + pack];
      gamma[index] = reinterpret_cast<const Weights*>(pass.gamma)[pack];
      if (has_beta) beta[index] = reinterpret_cast<const Weights*>(pass.beta)[pack];
      if (pass.residual == nullptr) return;
      const Values other = reinterpret_cast<const Values*>(pass.residual)[row * packs + pack];
      for (int lane = 0; lane < lanes; ++lane) {
        x[index].values[lane] = store<Element>(load(x[index].values[lane]) + load(other.values[lane]));
      }
      reinterpret_cast<Values*>(pass.sum)[row * packs + pack] = x[index];
    });
    const auto each = [&](auto run) {
      for_packs<kPacks>(packs, [&](int index, int64_t) {
        for (int lane = 0; lane < lanes; ++lane) run(x[index].values[lane]);
      });
    };
    const Accumulate mean = row_mean<Norm>(block, count, each);
    const Accumulate scale = row_scale(block, count, pass.epsilon, mean, each);
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      Values y;
      for (int lane = 0; lane < lanes; ++lane) {
        const Accumulate centered = load(x[index].values[lane]) - mean;
        Accumulate output = norm_output(centered, Accumulate(load(gamma[index].values[lane])), scale);
        if (has_beta) output += load(beta[index].values[lane]);
        y.values[lane] = store<Element>(output);
      }
      reinterpret_cast<Values*>(pass.y)[row * packs + pack] = y;
    });
  }
}

template <class Norm, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads, 1)
    plain_forward_kernel(const NormForward<Element, Weight> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const Accumulate count = static_cast<Accumulate>(pass.width);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Element* x = pass.x + row * pass.width;
    if (pass.residual != nullptr) {
      const Element* other = pass.residual + row * pass.width;
      Element* sum = pass.sum + row * pass.width;
      for (int64_t column = threadIdx.x; column < pass.width; column += blockDim.x) {
        sum[column] = store<Element>(load(x[column]) + load(other[column]));
      }
      x = sum;  // each thread reads what it has written itself
    }
    const auto each = [&](auto run) {
      for (int64_t column = threadIdx.x; column < pass.width; column += blockDim.x) run(x[column]);
    };
    const Accumulate mean = row_mean<Norm>(block, count, each);
    const Accumulate scale = row_scale(block, count, pass.epsilon, mean, each);
    for (int64_t column = threadIdx.x; column < pass.width; column += blockDim.x) {
      const Accumulate centered = load(x[column]) - mean;
      Accumulate output = norm_output(centered, Accumulate(load(pass.gamma[column])), scale);
      if (Norm::kCentered && pass.beta != nullptr) output += load(pass.beta[column]);
      pass.y[row * pass.width + column] = store<Element>(output);
    }
  }
}

// What a row's gradient of x needs of the whole row, from sums over the block.
template <class Norm, class Accumulate>
struct RowSums {
  // The squares of x - m, the products of them with the slopes and, centered, the slopes.
  Accumulate sums[Norm::kCentered ? 3 : 2] = {};

  __device__ __forceinline__ void add(Accumulate centered, Accumulate slope) {
    sums[0] += centered * centered;
    sums[1] += slope * centered;
    if constexpr (Norm::kCentered) sums[2] += slope;
  }

  __device__ __forceinline__ void finish(BlockSums<Accumulate>& block, Accumulate count, Accumulate epsilon) {
    block.add(sums);
    sums[0] = norm_scale(sums[0], count, epsilon);
    sums[1] = norm_pull(sums[0], sums[1], count);
    if constexpr (Norm::kCentered) sums[2] /= count;
  }

  __device__ __forceinline__ Accumulate grad_x(Accumulate centered, Accumulate grad, Accumulate gamma) const {
    Accumulate slope = grad * gamma;
    if constexpr (Norm::kCentered) slope -= sums[2];
    return norm_grad_x(slope, centered, sums[0], sums[1]);
  }

  // Adds a value's gradients of the weights to their sums.
  __device__ __forceinline__ void add_weights(
      Accumulate centered, Accumulate grad, Accumulate& gamma_sum, Accumulate& beta_sum) const {
    gamma_sum += norm_grad_gamma(grad, centered, sums[0]);
    if constexpr (Norm::kCentered) beta_sum += grad;
  }
};

// A block takes a run of rows and writes its part of the gradients of the weights once, to its row of `partials`. With
// one pack for each thread there are registers to keep gamma and to read the next row while it computes one.
template <class Norm, int kPacks, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads)
    packed_backward_kernel(const NormBackward<Element, Weight> pass, accumulate_t<Element>* partials, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  using Values = RowValues<Element>;
  using Weights = Pack<Weight, kRowPack<Element>>;
  using Sums = Pack<Accumulate, kRowPack<Element>>;
  constexpr int lanes = kRowPack<Element>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const int64_t packs = pass.width / lanes;
  const Accumulate count = static_cast<Accumulate>(pass.width);
  Sums gamma_sums[kPacks] = {};
  Sums beta_sums[kPacks] = {};
  Values next_x[kPacks];
  Values next_grad[kPacks];
  int64_t row = rows * blockIdx.x / gridDim.x;
  const int64_t end = rows * (blockIdx.x + 1) / gridDim.x;
  const auto read = [&](int64_t one) {
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      next_x[index] = reinterpret_cast<const Values*>(pass.x)[one * packs + pack];
      next_grad[index] = reinterpret_cast<const Values*>(pass.grad)[one * packs + pack];
    });
  };
  const auto gamma_at = [&](int64_t pack) { return reinterpret_cast<const Weights*>(pass.gamma)[pack]; };
  Weights kept_gamma;
  if (kPacks == 1) {
    if (threadIdx.x < packs) kept_gamma = gamma_at(threadIdx.x);
    if (row < end) read(row);
  }
  for (; row < end; ++row) {
    if (kPacks > 1) read(row);
    Values x[kPacks];
    Values grad[kPacks];
    Values grad_sum[kPacks];
    for_packs<kPacks>(packs, [&](int index, int64_t) {
      x[index] = next_x[index];
      grad[index] = next_grad[index];
    });
    const auto read_grad_sum = [&] {
      for_packs<kPacks>(packs, [&](int index, int64_t pack) {
        grad_sum[index] = reinterpret_cast<const Values*>(pass.grad_sum)[row * packs + pack];
      });
    };
    if (kPacks == 1) {
      if (pass.grad_sum != nullptr) read_grad_sum();
      if (row + 1 < end) read(row + 1);
    }
    const Accumulate mean = row_mean<Norm>(block, count, [&](auto run) {
      for_packs<kPacks>(packs, [&](int index, int64_t) {
        for (int lane = 0; lane < lanes; ++lane) run(x[index].values[lane]);
      });
    });
    RowSums<Norm, Accumulate> sums;
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      const Weights gamma = kPacks == 1 ? kept_gamma : gamma_at(pack);
      for (int lane = 0; lane < lanes; ++lane) {
        const Accumulate slope = Accumulate(load(grad[index].values[lane])) * load(gamma.values[lane]);
        sums.add(load(x[index].values[lane]) - mean, slope);
      }
    });
    sums.finish(block, count, pass.epsilon);
    if (kPacks > 1 && pass.grad_sum != nullptr) read_grad_sum();
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      const Weights gamma = kPacks == 1 ? kept_gamma : gamma_at(pack);
      Values grad_x;
      for (int lane = 0; lane < lanes; ++lane) {
        const Accumulate centered = load(x[index].values[lane]) - mean;
        const Accumulate upper = load(grad[index].values[lane]);
        Accumulate total = sums.grad_x(centered, upper, load(gamma.values[lane]));
        if (pass.grad_sum != nullptr) total += load(grad_sum[index].values[lane]);
        grad_x.values[lane] = store<Element>(total);
        sums.add_weights(centered, upper, gamma_sums[index].values[lane], beta_sums[index].values[lane]);
      }
      reinterpret_cast<Values*>(pass.grad_x)[row * packs + pack] = grad_x;
    });
  }
  auto* part = reinterpret_cast<Sums*>(partials) + blockIdx.x * packs * (Norm::kCentered ? 2 : 1);
  for_packs<kPacks>(packs, [&](int index, int64_t pack) {
    part[pack] = gamma_sums[index];
    if constexpr (Norm::kCentered) part[packs + pack] = beta_sums[index];
  });
}

// The same value by value, with the sums of the weights in memory.
template <class Norm, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads)
    plain_backward_kernel(const NormBackward<Element, Weight> pass, accumulate_t<Element>* partials, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const int64_t width = pass.width;
  const Accumulate count = static_cast<Accumulate>(width);
  Accumulate* gamma_sums = partials + blockIdx.x * width * (Norm::kCentered ? 2 : 1);
  Accumulate* beta_sums = gamma_sums + width;
  for (int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    gamma_sums[column] = 0;
    if constexpr (Norm::kCentered) beta_sums[column] = 0;
  }
  const int64_t end = rows * (blockIdx.x + 1) / gridDim.x;
  for (int64_t row = rows * blockIdx.x / gridDim.x; row < end; ++row) {
    const Element* x = pass.x + row * width;
    const Element* grad = pass.grad + row * width;
    const Accumulate mean = row_mean<Norm>(block, count, [&](auto run) {
      for (int64_t column = threadIdx.x; column < width; column += blockDim.x) run(x[column]);
    });
    RowSums<Norm, Accumulate> sums;
    for (int64_t column = threadIdx.x; column < width; column += blockDim.x) {
      const Accumulate slope = Accumulate(load(grad[column])) * load(pass.gamma[column]);
      sums.add(load(x[column]) - mean, slope);
    }
    sums.finish(block, count, pass.epsilon);
    for (int64_t column = threadIdx.x; column < width; column += blockDim.x) {
      const Accumulate centered = load(x[column]) - mean;
      const Accumulate upper = load(grad[column]);
      Accumulate total = sums.grad_x(centered, upper, load(pass.gamma[column]));
      if (pass.grad_sum != nullptr) total += load(pass.grad_sum[row * width + column]);
      pass.grad_x[row * width + column] = store<Element>(total);
      sums.add_weights(centered, upper, gamma_sums[column], beta_sums[column]);
    }
  }
}

}  // namespace burnlike::cuda
