// A step of AdamW over many tensors on the CPU: checks, layouts and threads. The arithmetic is in isa/adamw_step.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "burnlike/adamw_lists.h"
#include "burnlike/calls.h"
#include "kernels.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"adamw_step_"};

// Values below which a second thread costs more than it saves.
constexpr int64_t kGrainValues = 32768;

AdamwKernel<float, float> kernel_for(float, float) { return kernels().adamw_float32; }
AdamwKernel<double, double> kernel_for(double, double) { return kernels().adamw_float64; }
AdamwKernel<BFloat16, BFloat16> kernel_for(BFloat16, BFloat16) { return kernels().adamw_bfloat16; }
AdamwKernel<BFloat16, float> kernel_for(BFloat16, float) { return kernels().adamw_bfloat16_float32; }
AdamwKernel<Float16, Float16> kernel_for(Float16, Float16) { return kernels().adamw_float16; }
AdamwKernel<Float16, float> kernel_for(Float16, float) { return kernels().adamw_float16_float32; }

void run(const AdamwTensor& tensor, const AdamwArguments& arguments, bool cautious, int64_t begin, int64_t end) {
  with_adamw_types(tensor.kind, tensor.moment_kind, [&](auto element, auto moment) {
    using Element = decltype(element);
    using Moment = decltype(moment);
    kernel_for(element, moment)(
        static_cast<Element*>(tensor.param), static_cast<const Element*>(tensor.grad),
        static_cast<Moment*>(tensor.moment_1), static_cast<Moment*>(tensor.moment_2),
        static_cast<Moment*>(tensor.max_moment_2), begin, end,
        adamw_scalars<accumulate_t<Element>>(arguments, tensor.corrections), cautious);
  });
}

void adamw_step_(
    StableListHandle params, StableListHandle grads, StableListHandle moments_1, StableListHandle moments_2,
    StableListHandle max_moments_2, const std::vector<int64_t>& times, double lr, double beta_1, double beta_2,
    double epsilon, double weight_decay, bool cautious, double grad_scale) {
  calls.add();
  const AdamwArguments arguments{lr, beta_1, beta_2, epsilon, weight_decay, grad_scale};
  AdamwLists lists{params, grads, moments_1, moments_2, max_moments_2, times, arguments};
  if (lists.tensors().empty()) return;
  STD_TORCH_CHECK(lists.device_type() == aoti_torch_device_type_cpu(), "adamw_step_: parameters are not on the CPU");

  // One range over the values of all tensors, so that each thread gets the same share whatever the sizes.
  std::vector<int64_t> ends;
  ends.reserve(lists.tensors().size());
  int64_t total = 0;
  for (const AdamwTensor& tensor : lists.tensors()) ends.push_back(total += tensor.count);
  const auto run_range = [&](int64_t begin, int64_t end) {
    size_t index = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    while (begin < end) {
      const AdamwTensor& tensor = lists.tensors()[index];
      const int64_t start = ends[index] - tensor.count;
      const int64_t stop = std::min(end, ends[index]);
      run(tensor, arguments, cautious, begin - start, stop - start);
      begin = stop;
      ++index;
    }
  };
  if (total <= kGrainValues) {
    run_range(0, total);
  } else {
    torch::stable::parallel_for(0, total, kGrainValues, run_range);
  }
  lists.copy_back();
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("adamw_step_", TORCH_BOX(&burnlike::cpu::adamw_step_));
}
