// The kernels of RMS and layer normalization for rows that fit in registers: a block of threads, or a warp where that
// is enough, takes one row, or a run of rows backward. The arithmetic is in burnlike/norms.h.
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

template <class Accumulate, int kCount>
__device__ __forceinline__ Pack<Accumulate, kCount> sums_of(
    Pack<Accumulate, kCount> x, const Pack<Accumulate, kCount>& y) {
#pragma unroll
  for (int lane = 0; lane < kCount; ++lane) x.values[lane] += y.values[lane];
  return x;
}

template <class Norm, int kPacks, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads)
    packed_forward_kernel(const NormForward<Element, Weight> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  constexpr int lanes = kRowPack<Element>;
  using Values = RawPack<Element, lanes>;
  using Weights = RawPack<Weight, lanes>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const int64_t packs = pass.width / lanes;
  const Accumulate count = static_cast<Accumulate>(pass.width);
  const bool has_beta = Norm::kCentered && pass.beta != nullptr;
  for (int64_t row = first_row(); row < rows; row += row_step()) {
    Values x[kPacks];
    Weights gamma[kPacks];
    Weights beta[kPacks];
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      x[index] = read_raw<lanes>(pass.x + row * pass.x_stride + pack * lanes);
      gamma[index] = read_raw<lanes>(pass.gamma + pack * lanes);
      if (has_beta) beta[index] = read_raw<lanes>(pass.beta + pack * lanes);
      if (pass.residual == nullptr) return;
      const Values other = read_raw<lanes>(pass.residual + row * pass.residual_stride + pack * lanes);
      const auto sum = rounded<Element>(sums_of(x[index].unpacked(), other.unpacked()));
      std::memcpy(&x[index], &sum, sizeof(sum));
      write_values(pass.sum + row * pass.width + pack * lanes, sum);
    });
    const auto each = [&](auto run) {
      for_packs<kPacks>(packs, [&](int index, int64_t) {
        const auto values = x[index].unpacked();
        for (int lane = 0; lane < lanes; ++lane) run(values.values[lane]);
      });
    };
    const Accumulate mean = row_mean<Norm>(block, count, each);
    const Accumulate scale = row_scale(block, count, pass.epsilon, mean, each);
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      const auto values = x[index].unpacked();
      const auto gammas = gamma[index].unpacked();
      const auto betas = beta[index].unpacked();
      Pack<Accumulate, lanes> y;
      for (int lane = 0; lane < lanes; ++lane) {
        y.values[lane] = norm_output(values.values[lane] - mean, gammas.values[lane], scale);
        if (has_beta) y.values[lane] += betas.values[lane];
      }
      write_values(pass.y + row * pass.width + pack * lanes, rounded<Element>(y));
    });
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

// The threads of a row take a run of rows, and a block writes its part of the gradients of the weights once, to its row
// of `partials`. They read the next row while they compute one and, with one pack for each, keep gamma. One block at
// least, not two: else sm_100 spills registers of float.
template <class Norm, int kPacks, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads, 1)
    packed_backward_kernel(const NormBackward<Element, Weight> pass, accumulate_t<Element>* partials, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  constexpr int lanes = kRowPack<Element>;
  using Values = RawPack<Element, lanes>;
  using Weights = RawPack<Weight, lanes>;
  using Sums = Pack<Accumulate, lanes>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const int64_t packs = pass.width / lanes;
  const Accumulate count = static_cast<Accumulate>(pass.width);
  Sums gamma_sums[kPacks] = {};
  Sums beta_sums[kPacks] = {};
  Values next_x[kPacks];
  Values next_grad[kPacks];
  int64_t row = rows * first_row() / row_step();
  const int64_t end = rows * (first_row() + 1) / row_step();
  const auto read = [&](int64_t one) {
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      next_x[index] = read_raw<lanes>(pass.x + one * pass.x_stride + pack * lanes);
      next_grad[index] = read_raw<lanes>(pass.grad + one * pass.grad_stride + pack * lanes);
    });
  };
  const auto gamma_at = [&](int64_t pack) { return read_raw<lanes>(pass.gamma + pack * lanes); };
  Weights kept_gamma;
  if (kPacks == 1 && threadIdx.x < packs) kept_gamma = gamma_at(threadIdx.x);
  if (row < end) read(row);
  for (; row < end; ++row) {
    Values x[kPacks];
    Values grad[kPacks];
    Values grad_sum[kPacks];
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      x[index] = next_x[index];
      grad[index] = next_grad[index];
      if (kPacks == 1 && pass.grad_sum != nullptr) {
        grad_sum[index] = read_raw<lanes>(pass.grad_sum + row * pass.grad_sum_stride + pack * lanes);
      }
    });
    if (row + 1 < end) read(row + 1);
    const Accumulate mean = row_mean<Norm>(block, count, [&](auto run) {
      for_packs<kPacks>(packs, [&](int index, int64_t) {
        const Sums values = x[index].unpacked();
        for (int lane = 0; lane < lanes; ++lane) run(values.values[lane]);
      });
    });
    RowSums<Norm, Accumulate> sums;
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      const Sums values = x[index].unpacked();
      const Sums grads = grad[index].unpacked();
      const Sums gamma = (kPacks == 1 ? kept_gamma : gamma_at(pack)).unpacked();
      for (int lane = 0; lane < lanes; ++lane) {
        sums.add(values.values[lane] - mean, grads.values[lane] * gamma.values[lane]);
      }
    });
    sums.finish(block, count, pass.epsilon);
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      if (kPacks > 1 && pass.grad_sum != nullptr) {
        grad_sum[index] = read_raw<lanes>(pass.grad_sum + row * pass.grad_sum_stride + pack * lanes);
      }
      const Sums values = x[index].unpacked();
      const Sums grads = grad[index].unpacked();
      const Sums gamma = (kPacks == 1 ? kept_gamma : gamma_at(pack)).unpacked();
      const Sums added = grad_sum[index].unpacked();
      Sums grad_x;
      for (int lane = 0; lane < lanes; ++lane) {
        const Accumulate centered = values.values[lane] - mean;
        const Accumulate upper = grads.values[lane];
        grad_x.values[lane] = sums.grad_x(centered, upper, gamma.values[lane]);
        if (pass.grad_sum != nullptr) grad_x.values[lane] += added.values[lane];
        sums.add_weights(centered, upper, gamma_sums[index].values[lane], beta_sums[index].values[lane]);
      }
      write_values(pass.grad_x + row * pass.width + pack * lanes, rounded<Element>(grad_x));
    });
  }
  if constexpr (kPacks == 1) {
    if (blockDim.y > 1) {  // the last warp has the sums of all, in their order
      __shared__ Sums joint[Norm::kCentered ? 2 : 1][kWarp];
      for (unsigned warp = 0; warp < blockDim.y; ++warp) {
        if (threadIdx.y == warp) {
          if (warp > 0) gamma_sums[0] = sums_of(gamma_sums[0], joint[0][threadIdx.x]);
          joint[0][threadIdx.x] = gamma_sums[0];
          if constexpr (Norm::kCentered) {
            if (warp > 0) beta_sums[0] = sums_of(beta_sums[0], joint[1][threadIdx.x]);
            joint[1][threadIdx.x] = beta_sums[0];
          }
        }
        __syncthreads();
      }
      if (threadIdx.y + 1 < blockDim.y) return;
    }
  }
  Accumulate* part = partials + blockIdx.x * pass.width * (Norm::kCentered ? 2 : 1);
  for_packs<kPacks>(packs, [&](int index, int64_t pack) {
    write_values(part + pack * lanes, gamma_sums[index]);
    if constexpr (Norm::kCentered) write_values(part + pass.width + pack * lanes, beta_sums[index]);
  });
}

}  // namespace burnlike::cuda
