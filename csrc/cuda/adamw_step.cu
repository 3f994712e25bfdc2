// A step of AdamW or Adam over many tensors on CUDA. The arithmetic is in burnlike/adamw_step.h.
#include "burnlike/adamw_step.h"

#include "burnlike/calls.h"
#include "burnlike/step_ops.h"
#include "step_launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"adamw_step_"};

template <Decay kDecay, bool kAmsgrad>
struct AdamwRule {
  static constexpr int kStates = kAmsgrad ? 3 : 2;
  static constexpr int kCodedStates = 2;
  using Arguments = AdamwArguments;
  using Timed = AdamwCorrections;
  template <class Accumulate>
  using Scalars = AdamwScalars<Accumulate>;

  template <class Accumulate>
  static Scalars<Accumulate> scalars(const Arguments& arguments, const GradientScalars<Accumulate>& gradient) {
    return adamw_scalars(arguments, Timed{1.0, 1.0}, gradient);
  }

  BURNLIKE_INLINE static Timed timed(const Arguments& arguments, double time) {
    return adamw_corrections(arguments, time);
  }

  template <class Accumulate>
  BURNLIKE_INLINE static void set_time(Scalars<Accumulate>& scalars, const Timed& timed) {
    scalars.correction_1 = static_cast<Accumulate>(timed.moment_1);
    scalars.correction_2 = static_cast<Accumulate>(timed.moment_2);
  }

  template <class Accumulate>
  BURNLIKE_INLINE static void value(
      Accumulate& p, Accumulate g, Accumulate* states, const Scalars<Accumulate>& scalars) {
    Accumulate unused = 0;
    adamw_value<kDecay, kAmsgrad>(p, g, states[0], states[1], kAmsgrad ? states[kStates - 1] : unused, scalars);
  }
};

template <Decay kDecay>
void run_form(StepLists& lists, const AdamwArguments& arguments) {
  if (arguments.amsgrad) {
    run_step<AdamwRule<kDecay, true>>(lists, arguments);
  } else {
    run_step<AdamwRule<kDecay, false>>(lists, arguments);
  }
}

void run(StepLists& lists, const AdamwArguments& arguments) {
  calls.add();
  switch (arguments.decay) {
    case Decay::kCautious:
      return run_form<Decay::kCautious>(lists, arguments);
    case Decay::kCoupled:
      return run_form<Decay::kCoupled>(lists, arguments);
    default:
      return run_form<Decay::kDecoupled>(lists, arguments);
  }
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("adamw_step_", TORCH_BOX(&burnlike::adamw_step_<burnlike::cuda::run>));
}
