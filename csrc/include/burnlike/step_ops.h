// The ops of steps as their schemas have them: `adamw_step_<run>` makes lists and arguments of what an op gets and
// hands them to `run`, which knows the device. For CPU and CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "adamw_step.h"
#include "lion_step.h"
#include "sgd_step.h"
#include "step_lists.h"

// The end of a step's schema. Gradients are written only with zero_grads.
#define BURNLIKE_STEP_OPTIONS                                                                                 \
  "float grad_scale, Tensor? factors, float clip_value, Tensor? skip, Tensor? skipped, Tensor(z!)[] copies, " \
  "bool zero_grads, int? seed) -> ()"

namespace burnlike {

template <void (*kRun)(StepLists&, const AdamwArguments&)>
void adamw_step_(
    StableListHandle params, StableListHandle grads, StableListHandle moments_1, StableListHandle moments_2,
    StableListHandle max_moments_2, StableListHandle scales_1, StableListHandle scales_2,
    const std::vector<int64_t>& times, double lr, double beta_1, double beta_2, double epsilon, double weight_decay,
    bool coupled, bool cautious, double grad_scale, const std::optional<Tensor>& factors, double clip_value,
    const std::optional<Tensor>& skip, const std::optional<Tensor>& skipped, StableListHandle copies, bool zero_grads,
    std::optional<int64_t> seed) {
  StepLists lists{
      params,
      grads,
      {{moments_1, scales_1, Storage::kSigned8, false},
       {moments_2, scales_2, Storage::kUnsigned8, false},
       {max_moments_2, std::nullopt, Storage::kUnsigned8, true}},
      &times,
      {grad_scale, factors, clip_value, skip, skipped, copies, zero_grads, seed}};
  const Decay decay = decay_form(weight_decay, coupled, cautious);
  kRun(lists, {lr, beta_1, beta_2, epsilon, weight_decay, decay, lists.has_states(2)});
}

template <void (*kRun)(StepLists&, const SgdArguments&)>
void sgd_step_(
    StableListHandle params, StableListHandle grads, StableListHandle velocities, StableListHandle scales,
    const std::vector<int64_t>& times, double lr, double momentum, double dampening, bool nesterov, double weight_decay,
    double grad_scale, const std::optional<Tensor>& factors, double clip_value, const std::optional<Tensor>& skip,
    const std::optional<Tensor>& skipped, StableListHandle copies, bool zero_grads, std::optional<int64_t> seed) {
  StepLists lists{
      params,
      grads,
      {{velocities, scales, Storage::kSigned8, true}},
      &times,
      {grad_scale, factors, clip_value, skip, skipped, copies, zero_grads, seed}};
  kRun(lists, {lr, momentum, dampening, weight_decay, momentum_form(lists.has_states(0), nesterov)});
}

template <void (*kRun)(StepLists&, const LionArguments&)>
void lion_step_(
    StableListHandle params, StableListHandle grads, StableListHandle moments, StableListHandle scales, double lr,
    double beta_1, double beta_2, double weight_decay, double grad_scale, const std::optional<Tensor>& factors,
    double clip_value, const std::optional<Tensor>& skip, const std::optional<Tensor>& skipped, StableListHandle copies,
    bool zero_grads, std::optional<int64_t> seed) {
  StepLists lists{
      params,
      grads,
      {{moments, scales, Storage::kSigned8, false}},
      nullptr,
      {grad_scale, factors, clip_value, skip, skipped, copies, zero_grads, seed}};
  kRun(lists, {lr, beta_1, beta_2, weight_decay});
}

}  // namespace burnlike
