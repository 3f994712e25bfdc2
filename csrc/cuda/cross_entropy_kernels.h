// The kernels of cross-entropy: one block of threads for a row. The arithmetic is in burnlike/cross_entropy.h.
#pragma once

#include <cassert>

#include "burnlike/cross_entropy.h"
#include "row_sums.h"

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

// Of some logits: the largest, and the sum of exponentials that are shifted by it.
template <class Accumulate>
struct Partial {
  Accumulate largest = lowest_logit<Accumulate>();
  Accumulate sum = 0;
};

// This thread's part of a row, of which kPack logits are read at once. Without logits, or with -inf only, the sum is 0.
template <bool kCapped, int kPack, class Element>
__device__ Partial<accumulate_t<Element>> partial_of(
    const Element* logits, int64_t classes, accumulate_t<Element> soft_cap) {
  using Accumulate = accumulate_t<Element>;
  Partial<Accumulate> part;
  const auto* pack = reinterpret_cast<const Pack<Element, kPack>*>(logits) + threadIdx.x;
  const auto* end = reinterpret_cast<const Pack<Element, kPack>*>(logits + classes);
  for (; pack < end; pack += blockDim.x) {
    const Pack<Element, kPack> values = *pack;
    Accumulate z[kPack];
    Accumulate largest = part.largest;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      z[lane] = logit_of<kCapped>(values.values[lane], soft_cap);
      largest = z[lane] > largest ? z[lane] : largest;
    }
    if (largest > part.largest) part.sum *= decay(part.largest - largest);
    part.largest = largest;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) part.sum += decay(z[lane] - shift_of(largest));
  }
  return part;
}

// This thread's part of the sum of w * (z - origin), which smoothing needs; the row is in the caches by now.
template <bool kCapped, class Element>
__device__ accumulate_t<Element> rest_of(
    const Element* logits, const CrossEntropyOptions<accumulate_t<Element>>& options, accumulate_t<Element> origin) {
  accumulate_t<Element> rest = 0;
  for (int64_t index = threadIdx.x; index < options.classes; index += blockDim.x) {
    const accumulate_t<Element> distance = logit_of<kCapped>(logits[index], options.soft_cap) - origin;
    rest += options.weights == nullptr ? distance : options.weights[index] * distance;
  }
  return rest;
}

// One of `losses`, which are to be added, and `loss` is null.
template <bool kCapped, int kPack, class Element>
__global__ void __launch_bounds__(kMaxThreads, 1)
    forward_kernel(Rows<Element> input, accumulate_t<Element>* statistics, double* losses, accumulate_t<Element>* loss) {
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
    const Partial<Accumulate> part = partial_of<kCapped, kPack>(logits, options.classes, options.soft_cap);
    shift = shift_of(over_block(part.largest, shared, Larger{}));
    sum = over_block(part.sum * decay(shift_of(part.largest) - shift), shared, Add{});
    Accumulate rest = 0;
    if (options.label_smoothing > 0.0) {
      // A distance to an infinite logit would be NaN where the loss is infinite.
      const bool is_finite = target_logit - target_logit == Accumulate(0);
      rest = rest_of<kCapped>(logits, options, is_finite ? target_logit : Accumulate(0));
      rest = over_block(rest, shared, Add{});
    }
    value = cross_entropy_loss(
        options, weight_of(options, target), shift, sum, target_logit, static_cast<double>(rest));
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

// Adds rows' losses, unless `loss` is null, and their targets' weights, in an order that the number of rows decides.
// A target that is no class fails an assertion, as in torch.
template <class Element>
__global__ void __launch_bounds__(kMaxThreads, 1) totals_kernel(
    Rows<Element> input, const double* losses, double* total_weight, accumulate_t<Element>* loss, bool is_mean) {
  using Accumulate = accumulate_t<Element>;
  __shared__ double shared[kWarp];
  double sum = 0.0;
  double weights = 0.0;
  for (int64_t row = threadIdx.x; row < input.rows; row += blockDim.x) {
    const int64_t target = input.targets[row];
    if (target == input.options.ignore_index) continue;
    assert(input.counts(target) && "cross_entropy: a target is out of bounds");
    if (loss != nullptr) sum += losses[row];
    weights += weight_of(input.options, target);
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
template <bool kCapped, int kPack, class Element>
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
  const auto* logits = reinterpret_cast<const Pack<Element, kPack>*>(input.logits + row * options.classes);
  auto* packs = reinterpret_cast<Pack<Element, kPack>*>(grads + row * options.classes);
  for (int64_t pack = threadIdx.x; pack < options.classes / kPack; pack += blockDim.x) {
    const Pack<Element, kPack> values = logits[pack];
    Pack<Element, kPack> made;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      const int64_t index = pack * kPack + lane;
      const Accumulate value = squashed<kCapped>(Accumulate(load(values.values[lane])), cap);
      Accumulate slope = slopes.exps * decay(capped<kCapped>(value, cap) - shift);
      slope -= options.weights == nullptr ? slopes.spread : slopes.spread * options.weights[index];
      if (index == target) slope -= slopes.target;
      made.values[lane] = store<Element>(is_counted ? slope * cap_slope<kCapped>(value) : Accumulate(0));
    }
    packs[pack] = made;
  }
}

}  // namespace
}  // namespace burnlike::cuda
