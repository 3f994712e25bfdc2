// A step of Lion over many tensors on CUDA. The arithmetic is in burnlike/lion_step.h.
#include "burnlike/lion_step.h"

#include "burnlike/calls.h"
#include "burnlike/step_ops.h"
#include "step_launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"lion_step_"};

struct LionRule {
  static constexpr int kStates = 1;
  static constexpr int kCodedStates = 1;
  using Arguments = LionArguments;
  struct Timed {};
  template <class Accumulate>
  using Scalars = LionScalars<Accumulate>;

  template <class Accumulate>
  static Scalars<Accumulate> scalars(const Arguments& arguments, const GradientScalars<Accumulate>& gradient) {
    return lion_scalars(arguments, gradient);
  }

  BURNLIKE_INLINE static Timed timed(const Arguments&, double) { return {}; }

  template <class Accumulate>
  BURNLIKE_INLINE static void set_time(Scalars<Accumulate>&, const Timed&) {}

  template <class Accumulate>
  BURNLIKE_INLINE static void value(
      Accumulate& p, Accumulate g, Accumulate* states, const Scalars<Accumulate>& scalars) {
    lion_value(p, g, states[0], scalars);
  }
};

void run(StepLists& lists, const LionArguments& arguments) {
  calls.add();
  run_step<LionRule>(lists, arguments);
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("lion_step_", TORCH_BOX(&burnlike::lion_step_<burnlike::cuda::run>));
}
