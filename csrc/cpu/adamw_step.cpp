// A step of AdamW or Adam over many tensors on the CPU. The arithmetic is in isa/adamw_step.inl.
#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/step_ops.h"
#include "isa/adamw_step.h"
#include "step_engine.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"adamw_step_"};

struct AdamwRule {
  AdamwArguments arguments;
  std::vector<AdamwCorrections> corrections{};

  // Powers take longer than the step of a small tensor, and most tensors have the same time.
  void prepare(const StepLists& lists) {
    corrections.reserve(lists.tensors().size());
    int64_t time = 0;
    for (const StepTensor& tensor : lists.tensors()) {
      corrections.push_back(
          tensor.time == time ? corrections.back()
                              : adamw_corrections(arguments, effective_time(lists.options(), tensor.time)));
      time = tensor.time;
    }
  }

  template <class Accumulate>
  AdamwScalars<Accumulate> scalars(const StepTensor& tensor, size_t position, const StepOptions& options) const {
    return adamw_scalars(arguments, corrections[position], gradient_scalars<Accumulate>(options, tensor.index));
  }

  template <class Accumulate>
  void run(const StepValues<Accumulate>& values, const AdamwScalars<Accumulate>& scalars) const {
    adamw_step_kernels()(Accumulate{}).run(values, scalars, arguments.decay, arguments.amsgrad);
  }
};

void run(StepLists& lists, const AdamwArguments& arguments) {
  calls.add();
  AdamwRule rule{arguments};
  run_step(lists, rule);
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "adamw_step_(Tensor(a!)[] params, Tensor(b!)[] grads, Tensor(c!)[] moments_1, Tensor(d!)[] moments_2, "
      "Tensor(e!)[] max_moments_2, Tensor(f!)[] scales_1, Tensor(g!)[] scales_2, int[] times, float lr, float beta_1, "
      "float beta_2, float epsilon, float weight_decay, bool coupled, bool cautious, " BURNLIKE_STEP_OPTIONS);
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("adamw_step_", TORCH_BOX(&burnlike::adamw_step_<burnlike::cpu::run>));
}
