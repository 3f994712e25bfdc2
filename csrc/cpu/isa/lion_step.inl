// Lion over a run of values, in one pass.

namespace {

template <class Accumulate>
void lion_run(
    Accumulate* __restrict__ params, const Accumulate* __restrict__ grads, Accumulate* __restrict__ moments,
    int64_t count, const LionScalars<Accumulate> scalars) {
  for (int64_t index = 0; index < count; ++index) lion_value(params[index], grads[index], moments[index], scalars);
}

template <class Accumulate>
void lion_values(const StepValues<Accumulate>& values, const LionScalars<Accumulate>& scalars) {
  lion_run(values.p, values.g, values.states[0], values.count, scalars);
}

}  // namespace

constinit const PerAccumulate<LionKernels> lion_step_kernels = {{lion_values<float>}, {lion_values<double>}};
