// Stochastic gradient descent over a run of values, in one pass.

namespace {

template <Momentum kMomentum, bool kDecay, class Accumulate>
void sgd_run(
    Accumulate* __restrict__ params, const Accumulate* __restrict__ grads, Accumulate* __restrict__ velocities,
    int64_t count, const SgdScalars<Accumulate> scalars) {
  for (int64_t index = 0; index < count; ++index) {
    Accumulate p = params[index];
    Accumulate v = 0;
    if constexpr (kMomentum != Momentum::kNone) v = velocities[index];
    sgd_value<kMomentum, kDecay>(p, grads[index], v, scalars);
    params[index] = p;
    if constexpr (kMomentum != Momentum::kNone) velocities[index] = v;
  }
}

template <Momentum kMomentum, class Accumulate>
void sgd_form(const StepValues<Accumulate>& values, const SgdScalars<Accumulate>& scalars, bool decays) {
  const auto run = decays ? sgd_run<kMomentum, true, Accumulate> : sgd_run<kMomentum, false, Accumulate>;
  run(values.p, values.g, values.states[0], values.count, scalars);
}

template <class Accumulate>
void sgd_values(
    const StepValues<Accumulate>& values, const SgdScalars<Accumulate>& scalars, Momentum momentum, bool decays) {
  switch (momentum) {
    case Momentum::kHeavyBall:
      return sgd_form<Momentum::kHeavyBall>(values, scalars, decays);
    case Momentum::kNesterov:
      return sgd_form<Momentum::kNesterov>(values, scalars, decays);
    default:
      return sgd_form<Momentum::kNone>(values, scalars, decays);
  }
}

}  // namespace

constinit const PerAccumulate<SgdKernels> sgd_step_kernels = {{sgd_values<float>}, {sgd_values<double>}};
