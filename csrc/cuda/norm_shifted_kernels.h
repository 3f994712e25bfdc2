// The kernels of RMS and layer normalization for rows that don't fit in registers, are no whole packs, or are float64:
// they read a row in packs at any place, once for each sum that they need of it, from the cache but for the first time.
#pragma once

#include "norm_kernels.h"
#include "shifted_packs.h"

namespace burnlike::cuda {

// The weights [first, first + kLanes) of a row of `width`; those before and behind it are arbitrary.
template <int kLanes, class Accumulate, class Weight>
__device__ __forceinline__ Pack<Accumulate, kLanes> weights_at(const Weight* weights, int64_t first, int64_t width) {
  constexpr int kEach = kWordsPack<Weight> < kLanes ? kWordsPack<Weight> : kLanes;
  Pack<Accumulate, kLanes> values;
#pragma unroll
  for (int part = 0; part < kLanes; part += kEach) {
    const auto read = read_shifted(weights, first + part, width);
#pragma unroll
    for (int lane = 0; lane < kEach; ++lane) values.values[part + lane] = load(read.values[lane]);
  }
  return values;
}

// Calls `run(lane)` for those of the values [first, first + kLanes) that a row of `width` has.
template <int kLanes, class Run>
__device__ __forceinline__ void for_lanes(int64_t first, int64_t width, const Run& run) {
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
    if (first + lane >= 0 && first + lane < width) run(lane);
  }
}

// It says that one block at a time is enough, as the backward kernel does: for more, ptxas would spill a few registers.
//
// Which values a thread sums depends on the width alone, and so do the bits of sums; where rows are written, packs
// begin at multiples of 16 bytes.
template <class Norm, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads, 1)
    shifted_forward_kernel(const NormForward<Element, Weight> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  constexpr int lanes = kWordsPack<Element>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const int64_t width = pass.width;
  const Accumulate count = static_cast<Accumulate>(width);
  const int64_t begin = static_cast<int64_t>(threadIdx.x) * lanes;
  const int64_t step = static_cast<int64_t>(blockDim.x) * lanes;
  for (int64_t row = first_row(); row < rows; row += row_step()) {
    const Element* x = pass.x + row * pass.x_stride;
    const Element* residual = pass.residual + row * pass.residual_stride;
    const auto values_at = [&](int64_t first) {
      const Pack<Element, lanes> values = read_shifted(x, first, width);
      if (pass.residual == nullptr) return values;
      return rounded<Element>(sums_of(unpacked(values), unpacked(read_shifted(residual, first, width))));
    };
    const auto each = [&](auto run) {
      for (int64_t first = begin; first < width; first += step) {
        const auto values = values_at(first);
        for_lanes<lanes>(first, width, [&](int lane) { run(values.values[lane]); });
      }
    };
    const Accumulate mean = row_mean<Norm>(block, count, each);
    const Accumulate scale = row_scale(block, count, pass.epsilon, mean, each);
    Element* y = pass.y + row * width;
    Element* sum = pass.sum + row * width;  // like y new, so that both begin at a multiple of 16 bytes
    for (int64_t first = begin - values_before(y); first < width; first += step) {
      const Pack<Element, lanes> read = values_at(first);
      const auto values = unpacked(read);
      const auto gamma = weights_at<lanes, Accumulate>(pass.gamma, first, width);
      Pack<Accumulate, lanes> outputs;
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane) {
        outputs.values[lane] = norm_output(values.values[lane] - mean, gamma.values[lane], scale);
      }
      if (Norm::kCentered && pass.beta != nullptr) {
        const auto beta = weights_at<lanes, Accumulate>(pass.beta, first, width);
#pragma unroll
        for (int lane = 0; lane < lanes; ++lane) outputs.values[lane] += beta.values[lane];
      }
      write_aligned(y, first, width, rounded<Element>(outputs));
      if (pass.residual != nullptr) write_aligned(sum, first, width, read);
    }
  }
}

// Where the sums of the weights' gradients lie in shared memory: a place between each 32, so that threads with eight
// values side by side each don't meet in a bank.
__host__ __device__ __forceinline__ int64_t sum_place(int64_t column) { return column + column / kWarp; }

// Bytes of them, for all rows that a block takes at a time.
template <class Norm, class Accumulate>
int64_t sum_bytes(int64_t width, const dim3& block) {
  return sum_place(width * (Norm::kCentered ? 2 : 1)) * block.y * static_cast<int64_t>(sizeof(Accumulate));
}

// The threads of a row take a run of rows, whose sums of the weights' gradients they keep in shared memory or, without
// room, where they are written: in a block's row of `partials`.
template <class Norm, class Element, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads, 1) shifted_backward_kernel(
    const NormBackward<Element, Weight> pass, accumulate_t<Element>* partials, int64_t rows, bool in_shared) {
  using Accumulate = accumulate_t<Element>;
  constexpr int lanes = kWordsPack<Element>;
  __shared__ Accumulate shared[BlockSums<Accumulate>::kShared];
  BlockSums<Accumulate> block{shared};
  const int64_t width = pass.width;
  const int64_t columns = width * (Norm::kCentered ? 2 : 1);
  const Accumulate count = static_cast<Accumulate>(width);
  const int64_t begin = static_cast<int64_t>(threadIdx.x) * lanes;
  const int64_t step = static_cast<int64_t>(blockDim.x) * lanes;
  Accumulate* all_sums = dynamic_shared<Accumulate>();
  Accumulate* part = partials + blockIdx.x * columns;
  Accumulate* weight_sums = in_shared ? all_sums + threadIdx.y * sum_place(columns) : part;
  const auto sum_at = [&](int64_t column) -> Accumulate& {
    return weight_sums[in_shared ? sum_place(column) : column];
  };
  for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) sum_at(column) = 0;
  const int64_t end = rows * (first_row() + 1) / row_step();
  for (int64_t row = rows * first_row() / row_step(); row < end; ++row) {
    const Element* x = pass.x + row * pass.x_stride;
    const Element* grad = pass.grad + row * pass.grad_stride;
    const Accumulate mean = row_mean<Norm>(block, count, [&](auto run) {
      for (int64_t first = begin; first < width; first += step) {
        const auto values = read_shifted(x, first, width);
        for_lanes<lanes>(first, width, [&](int lane) { run(values.values[lane]); });
      }
    });
    RowSums<Norm, Accumulate> sums;
    for (int64_t first = begin; first < width; first += step) {
      const auto values = unpacked(read_shifted(x, first, width));
      const auto grads = unpacked(read_shifted(grad, first, width));
      const auto gamma = weights_at<lanes, Accumulate>(pass.gamma, first, width);
      for_lanes<lanes>(first, width, [&](int lane) {
        sums.add(values.values[lane] - mean, grads.values[lane] * gamma.values[lane]);
      });
    }
    sums.finish(block, count, pass.epsilon);
    // Another thread may have had a column in the last row; blocks of more than a warp have met for the sums.
    if (blockDim.x == kWarp) __syncwarp();
    Element* grad_x = pass.grad_x + row * width;
    for (int64_t first = begin - values_before(grad_x); first < width; first += step) {
      const auto values = unpacked(read_shifted(x, first, width));
      const auto grads = unpacked(read_shifted(grad, first, width));
      const auto gamma = weights_at<lanes, Accumulate>(pass.gamma, first, width);
      Pack<Accumulate, lanes> totals{};
      if (pass.grad_sum != nullptr) {
        totals = unpacked(read_shifted(pass.grad_sum + row * pass.grad_sum_stride, first, width));
      }
      for_lanes<lanes>(first, width, [&](int lane) {
        const Accumulate centered = values.values[lane] - mean;
        const Accumulate upper = grads.values[lane];
        totals.values[lane] = sums.grad_x(centered, upper, gamma.values[lane]) + totals.values[lane];
        Accumulate beta_sum = 0;
        sums.add_weights(centered, upper, sum_at(first + lane), beta_sum);
        if constexpr (Norm::kCentered) sum_at(width + first + lane) += beta_sum;
      });
      write_aligned(grad_x, first, width, rounded<Element>(totals));
    }
  }
  if (!in_shared) return;
  __syncthreads();
  const int64_t threads = blockDim.x * blockDim.y;
  for (int64_t column = threadIdx.y * blockDim.x + threadIdx.x; column < columns; column += threads) {
    Accumulate sum = 0;
    for (unsigned group = 0; group < blockDim.y; ++group) {
      sum += all_sums[group * sum_place(columns) + sum_place(column)];
    }
    part[column] = sum;
  }
}

}  // namespace burnlike::cuda
