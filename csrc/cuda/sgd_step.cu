// A step of stochastic gradient descent over many tensors on CUDA. The arithmetic is in burnlike/sgd_step.h.
#include "burnlike/sgd_step.h"

#include "burnlike/calls.h"
#include "burnlike/step_ops.h"
#include "step_launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"sgd_step_"};

template <Momentum kMomentum, bool kDecay>
struct SgdRule {
  static constexpr int kStates = kMomentum == Momentum::kNone ? 0 : 1;
  static constexpr int kCodedStates = kStates;
  using Arguments = SgdArguments;
  struct Timed {
    bool is_first;
  };
  template <class Accumulate>
  using Scalars = SgdScalars<Accumulate>;

  template <class Accumulate>
  static Scalars<Accumulate> scalars(const Arguments& arguments, const GradientScalars<Accumulate>& gradient) {
    return sgd_scalars(arguments, 1.0, gradient);
  }

  BURNLIKE_INLINE static Timed timed(const Arguments&, double time) { return {time == 1.0}; }

  template <class Accumulate>
  BURNLIKE_INLINE static void set_time(Scalars<Accumulate>& scalars, const Timed& timed) {
    scalars.is_first = timed.is_first;
  }

  template <class Accumulate>
  BURNLIKE_INLINE static void value(
      Accumulate& p, Accumulate g, Accumulate* states, const Scalars<Accumulate>& scalars) {
    sgd_value<kMomentum, kDecay>(p, g, states[0], scalars);
  }
};

template <Momentum kMomentum>
void run_form(StepLists& lists, const SgdArguments& arguments) {
  if (arguments.weight_decay != 0.0) {
    run_step<SgdRule<kMomentum, true>>(lists, arguments);
  } else {
    run_step<SgdRule<kMomentum, false>>(lists, arguments);
  }
}

void run(StepLists& lists, const SgdArguments& arguments) {
  calls.add();
  switch (arguments.form) {
    case Momentum::kHeavyBall:
      return run_form<Momentum::kHeavyBall>(lists, arguments);
    case Momentum::kNesterov:
      return run_form<Momentum::kNesterov>(lists, arguments);
    default:
      return run_form<Momentum::kNone>(lists, arguments);
  }
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("sgd_step_", TORCH_BOX(&burnlike::sgd_step_<burnlike::cuda::run>));
}
