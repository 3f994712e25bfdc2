// AdamW and Adam over a run of values, in one pass: everything between load and store stays in registers.

namespace {

template <Decay kDecay, bool kAmsgrad, class Accumulate>
void adamw_run(
    Accumulate* __restrict__ params, const Accumulate* __restrict__ grads, Accumulate* __restrict__ moments_1,
    Accumulate* __restrict__ moments_2, Accumulate* __restrict__ max_moments_2, int64_t count,
    const AdamwScalars<Accumulate> scalars) {
  for (int64_t index = 0; index < count; ++index) {
    Accumulate p = params[index];
    Accumulate m = moments_1[index];
    Accumulate v = moments_2[index];
    Accumulate v_max = 0;
    if constexpr (kAmsgrad) v_max = max_moments_2[index];
    adamw_value<kDecay, kAmsgrad>(p, grads[index], m, v, v_max, scalars);
    params[index] = p;
    moments_1[index] = m;
    moments_2[index] = v;
    if constexpr (kAmsgrad) max_moments_2[index] = v_max;
  }
}

template <Decay kDecay, class Accumulate>
void adamw_form(const StepValues<Accumulate>& values, const AdamwScalars<Accumulate>& scalars, bool amsgrad) {
  const auto run = amsgrad ? adamw_run<kDecay, true, Accumulate> : adamw_run<kDecay, false, Accumulate>;
  run(values.p, values.g, values.states[0], values.states[1], values.states[2], values.count, scalars);
}

template <class Accumulate>
void adamw_values(
    const StepValues<Accumulate>& values, const AdamwScalars<Accumulate>& scalars, Decay decay, bool amsgrad) {
  switch (decay) {
    case Decay::kCautious:
      return adamw_form<Decay::kCautious>(values, scalars, amsgrad);
    case Decay::kCoupled:
      return adamw_form<Decay::kCoupled>(values, scalars, amsgrad);
    default:
      return adamw_form<Decay::kDecoupled>(values, scalars, amsgrad);
  }
}

}  // namespace

constinit const PerAccumulate<AdamwKernels> adamw_step_kernels = {{adamw_values<float>}, {adamw_values<double>}};
