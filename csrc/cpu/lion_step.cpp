// A step of Lion over many tensors on the CPU. The arithmetic is in isa/lion_step.inl.
#include <torch/csrc/stable/library.h>

#include "burnlike/calls.h"
#include "burnlike/step_ops.h"
#include "isa/lion_step.h"
#include "step_engine.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"lion_step_"};

struct LionRule {
  LionArguments arguments;

  void prepare(const StepLists&) {}

  template <class Accumulate>
  LionScalars<Accumulate> scalars(const StepTensor& tensor, size_t, const StepOptions& options) const {
    return lion_scalars(arguments, gradient_scalars<Accumulate>(options, tensor.index));
  }

  template <class Accumulate>
  void run(const StepValues<Accumulate>& values, const LionScalars<Accumulate>& scalars) const {
    lion_step_kernels()(Accumulate{}).run(values, scalars);
  }
};

void run(StepLists& lists, const LionArguments& arguments) {
  calls.add();
  LionRule rule{arguments};
  run_step(lists, rule);
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "lion_step_(Tensor(a!)[] params, Tensor(b!)[] grads, Tensor(c!)[] moments, Tensor(d!)[] scales, float lr, "
      "float beta_1, float beta_2, float weight_decay, " BURNLIKE_STEP_OPTIONS);
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("lion_step_", TORCH_BOX(&burnlike::lion_step_<burnlike::cpu::run>));
}
