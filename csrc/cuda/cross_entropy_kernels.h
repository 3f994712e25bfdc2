// The kernels of cross-entropy: one block of threads for a row. The arithmetic is in burnlike/cross_entropy.h.
#pragma once

#include <cassert>

#include "burnlike/cross_entropy.h"
#include "row_sums.h"
#include "shifted_packs.h"

namespace burnlike::cuda {
namespace {

// Kernels say that one such block at a time is enough: for three, ptxas would spill a few registers.
constexpr int kMaxThreads = 512;

// What a kernel knows of the call.
template <class Element>
struct Rows {
  using Accumulate = accumulate_t<Element>;

  const Element* logits;
  const int64_t* targets;
  int64_t rows;
  int64_t first;  // row of this launch
  CrossEntropyOptions<Accumulate> options;
  const double* weight_sum;  // on the device, or null without weights

  __device__ CrossEntropyOptions<Accumulate> with_weight_sum() const {
    CrossEntropyOptions<Accumulate> known = options;
    if (weight_sum != nullptr) known.weight_sum = *weight_sum;
    return known;
  }

  // Whether a row with this target counts. One that is no class doesn't, and totals_kernel ends the program.
  __device__ bool counts(int64_t target) const {
    return target != options.ignore_index && target >= 0 && target < options.classes;
  }
};

template <bool kCapped, class Element>
__device__ accumulate_t<Element> logit_of(Element value, accumulate_t<Element> soft_cap) {
  return capped<kCapped>(squashed<kCapped>(accumulate_t<Element>(load(value)), soft_cap), soft_cap);
}

// Of some logits: the largest, the sum of exponentials that are shifted by it, and the sum of w * (z - origin), which
// smoothing alone needs.
template <class Accumulate>
struct Partial {
  Accumulate largest = lowest_logit<Accumulate>();
  Accumulate sum = 0;
  Accumulate rest = 0;
};

// This thread's part of a row. Without logits, or with -inf only, the sum is 0.
template <bool kCapped, class Element>
__device__ Partial<accumulate_t<Element>> partial_of(
    const Element* logits, const CrossEntropyOptions<accumulate_t<Element>>& options, accumulate_t<Element> origin) {
  using Accumulate = accumulate_t<Element>;
  constexpr int kPack = kWordsPack<Element>;
  const bool is_smoothed = options.label_smoothing > 0.0;
  Partial<Accumulate> part;
  const int64_t step = static_cast<int64_t>(blockDim.x) * kPack;
  for (int64_t first = static_cast<int64_t>(threadIdx.x) * kPack; first < options.classes; first += step) {
    const Pack<Element, kPack> values = read_shifted(logits, first, options.classes);
    Accumulate z[kPack];
    Accumulate largest = part.largest;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      const bool is_there = first + lane < options.classes;
      z[lane] = is_there ? logit_of<kCapped>(values.values[lane], options.soft_cap) : lowest_logit<Accumulate>();
      largest = z[lane] > largest ? z[lane] : largest;
    }
    if (largest > part.largest) part.sum *= decay_of_values<Element>(part.largest - largest);
    part.largest = largest;
    const Accumulate shift = shift_of(largest);
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) part.sum += decay_of_values<Element>(z[lane] - shift);
    if (!is_smoothed) continue;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      if (first + lane >= options.classes) continue;
      const Accumulate distance = z[lane] - origin;
      part.rest += options.weights == nullptr ? distance : options.weights[first + lane] * distance;
    }
  }
  return part;
}

// One of `losses`, which are to be added, and `loss` is null.
template <bool kCapped, class Element>
__global__ void __launch_bounds__(kMaxThreads, 1) forward_kernel(
    Rows<Element> input, accumulate_t<Element>* statistics, double* losses, accumulate_t<Element>* loss) {
  using Accumulate = accumulate_t<Element>;
  __shared__ Accumulate shared[kWarp];
  const CrossEntropyOptions<Accumulate> options = input.with_weight_sum();
  const int64_t row = input.first + blockIdx.x;
  const int64_t target = input.targets[row];
  double value = 0.0;
  Accumulate shift = 0;
  Accumulate sum = 1;
  if (input.counts(target)) {  // the same for the whole block
    const Element* logits = input.logits + row * options.classes;
    const Accumulate target_logit = logit_of<kCapped>(logits[target], options.soft_cap);
    // A distance to an infinite logit would be NaN where the loss is infinite.
    const bool is_finite = target_logit - target_logit == Accumulate(0);
    const Partial<Accumulate> part = partial_of<kCapped>(logits, options, is_finite ? target_logit : Accumulate(0));
    shift = shift_of(over_block(part.largest, shared, Larger{}));
    sum = over_block(part.sum * decay(shift_of(part.largest) - shift), shared, Add{});
    const Accumulate rest = options.label_smoothing > 0.0 ? over_block(part.rest, shared, Add{}) : Accumulate(0);
    value =
        cross_entropy_loss(options, weight_of(options, target), shift, sum, target_logit, static_cast<double>(rest));
  }
  if (threadIdx.x != 0) return;
  statistics[2 * row] = shift;
  statistics[2 * row + 1] = sum;
  if (losses != nullptr) {
    losses[row] = value;
  } else {
    loss[row] = static_cast<Accumulate>(value);
  }
}

// Rows whose losses one block adds.
constexpr int64_t kTotalRows = 1024;
constexpr int64_t kMaxTotals = 1024;

// A block adds the losses of a run of rows, unless `losses` is null, and their targets' weights, and writes both sums
// to its pair of `sums`. A target that is no class fails an assertion, as in torch.
template <class Element>
__global__ void __launch_bounds__(kMaxThreads, 1)
    totals_kernel(Rows<Element> input, const double* losses, double* sums) {
  __shared__ double shared[kWarp];
  double sum = 0.0;
  double weights = 0.0;
  const int64_t end = input.rows * (blockIdx.x + 1) / gridDim.x;
  for (int64_t row = input.rows * blockIdx.x / gridDim.x + threadIdx.x; row < end; row += blockDim.x) {
    const int64_t target = input.targets[row];
    if (target == input.options.ignore_index) continue;
    assert(input.counts(target) && "cross_entropy: a target is out of bounds");
    if (losses != nullptr) sum += losses[row];
    weights += weight_of(input.options, target);
  }
  sum = over_block(sum, shared, Add{});
  weights = over_block(weights, shared, Add{});
  if (threadIdx.x != 0) return;
  sums[2 * blockIdx.x] = sum;
  sums[2 * blockIdx.x + 1] = weights;
}

// Adds the pairs of `totals_kernel`, in an order that the number of rows decides.
template <class Accumulate>
__global__ void __launch_bounds__(kMaxThreads, 1)
    finish_kernel(const double* sums, int64_t count, double* total_weight, Accumulate* loss, bool is_mean) {
  __shared__ double shared[kWarp];
  double sum = 0.0;
  double weights = 0.0;
  for (int64_t index = threadIdx.x; index < count; index += blockDim.x) {
    sum += sums[2 * index];
    weights += sums[2 * index + 1];
  }
  sum = over_block(sum, shared, Add{});
  weights = over_block(weights, shared, Add{});
  if (threadIdx.x != 0) return;
  *total_weight = weights;
  if (loss != nullptr) *loss = static_cast<Accumulate>(is_mean ? sum / weights : sum);
}

// The weights of the classes in the type that is computed in, and their sum.
template <class Weight, class Accumulate>
__global__ void __launch_bounds__(kMaxThreads, 1)
    weights_kernel(const Weight* weights, int64_t classes, Accumulate* converted, double* total) {
  __shared__ double shared[kWarp];
  double sum = 0.0;
  for (int64_t index = threadIdx.x; index < classes; index += blockDim.x) {
    converted[index] = Accumulate(load(weights[index]));
    sum += static_cast<double>(converted[index]);
  }
  sum = over_block(sum, shared, Add{});
  if (threadIdx.x == 0) *total = sum;
}

// `grad` has one value for each row, or one for all if grad_step is 0; `total_weight` is null unless it divides.
template <bool kCapped, class Element>
__global__ void __launch_bounds__(kMaxThreads, 1) backward_kernel(
    Rows<Element> input, const accumulate_t<Element>* grad, int64_t grad_step, const double* total_weight,
    const accumulate_t<Element>* statistics, Element* grads) {
  using Accumulate = accumulate_t<Element>;
  const CrossEntropyOptions<Accumulate> options = input.with_weight_sum();
  const Accumulate cap = options.soft_cap;
  const int64_t row = input.first + blockIdx.x;
  const int64_t target = input.targets[row];
  const bool is_counted = input.counts(target);
  const Accumulate shift = statistics[2 * row];
  CrossEntropySlopes<Accumulate> slopes{};
  if (is_counted) {
    const double divisor = total_weight == nullptr ? 1.0 : *total_weight;
    slopes = cross_entropy_slopes(
        options, weight_of(options, target), shift, statistics[2 * row + 1],
        static_cast<double>(grad[row * grad_step]) / divisor);
  }
  constexpr int kPack = kWordsPack<Element>;
  const int64_t classes = options.classes;
  const Element* logits = input.logits + row * classes;
  Element* made = grads + row * classes;
  const int64_t step = static_cast<int64_t>(blockDim.x) * kPack;
  for (int64_t first = static_cast<int64_t>(threadIdx.x) * kPack - values_before(made); first < classes;
       first += step) {
    const Pack<Element, kPack> values = read_shifted(logits, first, classes);
    Pack<Accumulate, kPack> outputs;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      const int64_t index = first + lane;
      const bool is_there = index >= 0 && index < classes;
      const Accumulate value = squashed<kCapped>(Accumulate(load(values.values[lane])), cap);
      Accumulate slope = slopes.exps * decay_of_values<Element>(capped<kCapped>(value, cap) - shift);
      slope -= options.weights == nullptr || !is_there ? slopes.spread : slopes.spread * options.weights[index];
      if (index == target) slope -= slopes.target;
      outputs.values[lane] = is_counted ? slope * cap_slope<kCapped>(value) : Accumulate(0);
    }
    write_aligned(made, first, classes, rounded<Element>(outputs));
  }
}

}  // namespace
}  // namespace burnlike::cuda
