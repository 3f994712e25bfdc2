// A step of any rule over many tensors on CUDA: a thread takes eight values at a time, reads what the rule needs of
// them, computes, and writes. What is decided on the device (factors, skipping, skipped steps) is read there.
//
// Tensors that are all of float32, or all of bfloat16, have kernels of their own, in which nothing asks how values are
// stored; one more takes all other combinations.
//
// A rule has
//   kStates, kCodedStates                how many moments it has, and how many of them, the first, may be in 8 bits
//   Arguments, Scalars<Accumulate>       its numbers, and what of them is the same for all values
//   scalars<Accumulate>(arguments, gradient)   without what depends on time
//   Timed, timed(arguments, time)        what depends on time
//   set_time(scalars, timed)
//   value(p, g, states, scalars)         the formula for one value; states[n] is one of its n-th moment
#pragma once

#include <cstdint>

#include "group_values.h"
#include "step_table.h"

namespace burnlike::cuda {

inline constexpr int kStepThreads = 256;
// Blocks of threads that a multiprocessor has at least at a time: bounds the registers of a thread. With three of two
// states sm_120 keeps 8 bytes on the stack.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
inline constexpr int kBlocksOfTwoStates = 2;
#else
inline constexpr int kBlocksOfTwoStates = 3;
#endif
template <class Rule, class Accumulate>
inline constexpr int kStepBlocks = sizeof(Accumulate) == 8 ? 1
                                   : Rule::kStates > 2     ? 2
                                                           : kBlocksOfTwoStates;
static_assert(kChunkValues % (kStepThreads * kGroupValues) == 0);

// The step of one group of values. All threads of a warp call it together.
template <class Rule, class Accumulate, Stored kStored>
__device__ __forceinline__ void step_group(
    const StepEntry<Rule>& entry, const StepOptions& options,
    const typename Rule::template Scalars<Accumulate>& scalars, const StepGroup<kStored>& group) {
  using Place = StepGroup<kStored>;
  constexpr int places = StepEntry<Rule>::kPlaces;
  const auto is_coded = [&](int state) {
    return kStored == Stored::kAny && state < Rule::kCodedStates && entry.scales[state] != nullptr;
  };
  const auto storage_of_state = [&](int state) { return known<kStored>(entry.state_storages[state]); };
  // Only parameters of float64 are computed in it.
  const Storage storage = sizeof(Accumulate) == 8 ? Storage::kFloat64 : known<kStored>(entry.storage);
  const int64_t block = group.first / kBlock;
  GroupBits<Accumulate> param_bits;
  GroupBits<Accumulate> grad_bits;
  GroupBits<Accumulate> state_bits[places];
  float state_scales[places] = {};
  read_group(entry.param, storage, group, param_bits);
  read_group(entry.grad, storage, group, grad_bits);
#pragma unroll
  for (int state = 0; state < Rule::kStates; ++state) {
    read_group(entry.states[state], storage_of_state(state), group, state_bits[state]);
    if (is_coded(state) && group.left > 0) state_scales[state] = entry.scales[state][block];
  }

  Accumulate p[kGroupValues];
  Accumulate g[kGroupValues];
  Accumulate moments[places][kGroupValues];
  unpack(storage, param_bits, p);
  unpack(storage, grad_bits, g);
#pragma unroll
  for (int state = 0; state < Rule::kStates; ++state) {
    if (is_coded(state)) {
      unpack_codes(entry.state_storages[state], state_bits[state], state_scales[state], moments[state]);
    } else {
      unpack(storage_of_state(state), state_bits[state], moments[state]);
    }
  }
#pragma unroll
  for (int value = 0; value < kGroupValues; ++value) {
    Accumulate own[places];
#pragma unroll
    for (int state = 0; state < Rule::kStates; ++state) own[state] = moments[state][value];
    Rule::value(p[value], g[value], own, scalars);
#pragma unroll
    for (int state = 0; state < Rule::kStates; ++state) moments[state][value] = own[state];
  }

  const auto rounding_of = [&](uint32_t stream) {
    GroupRounding rounding{options.stochastic, 0, static_cast<uint32_t>(group.first % kBlock)};
    if (rounding.stochastic) {
      rounding.block_key = random_block_key(random_key(options.seed, entry.index, stream), block);
    }
    return rounding;
  };
#pragma unroll
  for (int state = 0; state < Rule::kStates; ++state) {
    const GroupRounding rounding = rounding_of(static_cast<uint32_t>(state) + 1);
    if (is_coded(state)) {
      const float scale = scale_of_block(moments[state], group);
      pack_codes(entry.state_storages[state], moments[state], group, scale, rounding, state_bits[state]);
      if (group.first % kBlock == 0 && group.left > 0) entry.scales[state][block] = scale;
    } else {
      pack<Place>(storage_of_state(state), moments[state], rounding, state_bits[state]);
    }
    write_group(entry.states[state], storage_of_state(state), group, state_bits[state]);
  }
  pack<Place>(storage, p, rounding_of(0), param_bits);
  write_group(entry.param, storage, group, param_bits);
  if (entry.copy != nullptr) {
    // A copy is of the weight as it was stored.
    unpack(storage, param_bits, p);
    pack<Place>(entry.copy_storage, p, GroupRounding{}, param_bits);
    write_group(entry.copy, entry.copy_storage, group, param_bits);
  }
  if (options.zero_grads) write_group(entry.grad, storage, group, GroupBits<Accumulate>{});
}

template <class Rule, class Accumulate, Stored kStored, size_t kTableBytes>
__global__ void __launch_bounds__(kStepThreads, kStepBlocks<Rule, Accumulate>)
    step_kernel(const __grid_constant__ StepTable<Rule, Accumulate, kTableBytes> table) {
  static_assert(sizeof(table) <= kTableBytes);
  using Place = StepGroup<kStored>;
  const StepOptions& options = table.options;
  const bool skips = options.skip != nullptr && *options.skip != 0.0f;
  if (skips && !options.zero_grads) return;
  const int place = tensor_of_chunk(table.chunk_ends, table.tensor_count, blockIdx.x);
  const StepEntry<Rule>& entry = table.entries[place];

  auto scalars = table.scalars;
  if (!skips) {
    scalars.gradient.scale = static_cast<Accumulate>(gradient_scale(options, entry.index));
    if (options.skipped == nullptr) {
      Rule::set_time(scalars, entry.timed);
    } else {
      // Powers in float64 take long: one thread computes them for all.
      __shared__ typename Rule::Timed timed;
      if (threadIdx.x == 0) timed = Rule::timed(table.arguments, effective_time(options, entry.time));
      __syncthreads();
      Rule::set_time(scalars, timed);
    }
  }

  const uint32_t chunk = blockIdx.x - (place == 0 ? 0 : table.chunk_ends[place - 1]);
  const int64_t begin = chunk * kChunkValues;
  const int64_t end = begin + kChunkValues < entry.count ? begin + kChunkValues : entry.count;
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  for (int64_t block = begin + warp * kBlock; block < end; block += kStepThreads / kWarp * kBlock) {
    Place group{block + lane * Place::kPiece, 0, false};
    const int64_t left = entry.count - group.first;
    group.left = static_cast<int>(left < kBlock ? left : kBlock);
    group.is_vector = entry.is_aligned && group.has(kGroupValues - 1);
    if (skips) {
      write_group(entry.grad, known<kStored>(entry.storage), group, GroupBits<Accumulate>{});
    } else {
      step_group<Rule, Accumulate, kStored>(entry, options, scalars, group);
    }
  }
}

}  // namespace burnlike::cuda
