// A step of stochastic gradient descent over many tensors on the CPU. The arithmetic is in isa/sgd_step.inl.
#include <torch/csrc/stable/library.h>

#include "burnlike/calls.h"
#include "burnlike/step_ops.h"
#include "isa/sgd_step.h"
#include "step_engine.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"sgd_step_"};

struct SgdRule {
  SgdArguments arguments;

  void prepare(const StepLists&) {}

  template <class Accumulate>
  SgdScalars<Accumulate> scalars(const StepTensor& tensor, size_t, const StepOptions& options) const {
    return sgd_scalars(
        arguments, effective_time(options, tensor.time), gradient_scalars<Accumulate>(options, tensor.index));
  }

  template <class Accumulate>
  void run(const StepValues<Accumulate>& values, const SgdScalars<Accumulate>& scalars) const {
    sgd_step_kernels()(Accumulate{}).run(values, scalars, arguments.form, arguments.weight_decay != 0.0);
  }
};

void run(StepLists& lists, const SgdArguments& arguments) {
  calls.add();
  SgdRule rule{arguments};
  run_step(lists, rule);
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "sgd_step_(Tensor(a!)[] params, Tensor(b!)[] grads, Tensor(c!)[] velocities, Tensor(d!)[] scales, int[] times, "
      "float lr, float momentum, float dampening, bool nesterov, float weight_decay, " BURNLIKE_STEP_OPTIONS);
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("sgd_step_", TORCH_BOX(&burnlike::sgd_step_<burnlike::cpu::run>));
}
