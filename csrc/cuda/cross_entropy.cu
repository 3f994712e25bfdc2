// Cross-entropy over classes on CUDA: checks, outputs and launches. The kernels are in cross_entropy_kernels.h.
#include <algorithm>
#include <string>
#include <tuple>

#include "burnlike/calls.h"
#include "burnlike/cross_entropy_check.h"
#include "cross_entropy_kernels.h"
#include "launch.h"

namespace burnlike::cuda {
namespace {

CallCounter forward_calls{"cross_entropy"};
CallCounter backward_calls{"cross_entropy_backward"};

// Rows of a launch: a block of threads for each.
constexpr int64_t kLaunchRows = 1 << 30;

int threads_for(int64_t items) {
  return static_cast<int>(std::clamp<int64_t>((items + kWarp - 1) / kWarp * kWarp, kWarp, kMaxThreads));
}

// Of a row of which each takes 16 bytes at a time.
template <class Element>
int pack_threads(int64_t classes) {
  return threads_for((classes + kWordsPack<Element> - 1) / kWordsPack<Element>);
}

ElementKind accumulate_kind(const Tensor& tensor) {
  return element_kind(tensor) == ElementKind::kFloat64 ? ElementKind::kFloat64 : ElementKind::kFloat32;
}

// Calls `function(rows, blocks)` for runs of rows that one launch takes.
template <class Element, class Function>
void for_launches(Rows<Element> input, const Function& function) {
  for (; input.first < input.rows; input.first += kLaunchRows) {
    function(input, static_cast<unsigned>(std::min(input.rows - input.first, kLaunchRows)));
  }
}

// The tensors of a call, with weights in the type that is computed in.
struct Inputs {
  Inputs(const Tensor& logits_any, const Tensor& targets_any, const OptionalTensor& weight_any)
      : scope(logits_any), logits(as_contiguous(logits_any)), targets(contiguous_targets(targets_any)) {
    if (!weight_any) return;
    const Tensor given = as_contiguous(*weight_any);
    const int64_t classes = logits.size(1);
    weights = new_contiguous({classes}, accumulate_kind(logits), logits);
    weight_sum = new_contiguous({}, ElementKind::kFloat64, logits);
    double* sum_data = mutable_data_of<double>(*weight_sum);
    with_element_type(element_kind(given), [&](auto element) {
      using Weight = decltype(element);
      const Weight* data = data_of<Weight>(given);
      if (element_kind(*weights) == ElementKind::kFloat64) {
        launch(
            weights_kernel<Weight, double>, 1, kMaxThreads, scope.stream(), data, classes,
            mutable_data_of<double>(*weights), sum_data);
      } else {
        launch(
            weights_kernel<Weight, float>, 1, kMaxThreads, scope.stream(), data, classes,
            mutable_data_of<float>(*weights), sum_data);
      }
    });
  }

  DeviceScope scope;
  Tensor logits, targets;
  OptionalTensor weights, weight_sum;
};

// Calls `function` with the rows of a call and, as a constant, whether they are capped.
template <class Function>
void with_rows(
    const Inputs& inputs, int64_t ignore_index, double label_smoothing, double z_loss,
    const std::optional<double>& soft_cap, const Function& function) {
  with_element_type(element_kind(inputs.logits), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    const int64_t classes = inputs.logits.size(1);
    const Rows<Element> rows{
        data_of<Element>(inputs.logits),
        data_of<int64_t>(inputs.targets),
        inputs.logits.size(0),
        0,
        {inputs.weights ? data_of<Accumulate>(*inputs.weights) : nullptr, static_cast<double>(classes), classes,
         ignore_index, label_smoothing, z_loss, static_cast<Accumulate>(soft_cap.value_or(0.0))},
        inputs.weight_sum ? data_of<double>(*inputs.weight_sum) : nullptr};
    soft_cap ? function(rows, std::true_type{}) : function(rows, std::false_type{});
  });
}

std::tuple<Tensor, Tensor, Tensor> cross_entropy(
    const Tensor& logits_any, const Tensor& targets_any, const OptionalTensor& weight, int64_t ignore_index,
    double label_smoothing, double z_loss, const std::optional<double>& soft_cap, const std::string& reduction_name) {
  forward_calls.add();
  const Reduction reduction = reduction_of(reduction_name);
  check_cross_entropy(logits_any, targets_any, weight, label_smoothing, z_loss, soft_cap);
  const Inputs inputs(logits_any, targets_any, weight);
  const int64_t rows = inputs.logits.size(0);
  const bool is_reduced = reduction != Reduction::kNone;
  const ElementKind kind = accumulate_kind(inputs.logits);
  const Tensor loss =
      new_contiguous(is_reduced ? std::vector<int64_t>{} : std::vector<int64_t>{rows}, kind, inputs.logits);
  const Tensor statistics = new_contiguous({rows, 2}, kind, inputs.logits);
  const Tensor total_weight = new_contiguous({}, ElementKind::kFloat64, inputs.logits);
  const Tensor losses = new_contiguous({is_reduced ? rows : 0}, ElementKind::kFloat64, inputs.logits);
  double* losses_data = is_reduced ? mutable_data_of<double>(losses) : nullptr;
  const int64_t runs = std::clamp<int64_t>(rows / kTotalRows, 1, kMaxTotals);
  const Tensor sums = new_contiguous({runs, 2}, ElementKind::kFloat64, inputs.logits);
  double* sums_data = mutable_data_of<double>(sums);
  double* total_weight_data = mutable_data_of<double>(total_weight);
  const auto run = [&]<class Element>(const Rows<Element>& input, auto is_capped) {
    using Accumulate = accumulate_t<Element>;
    constexpr bool kCapped = decltype(is_capped)::value;
    Accumulate* loss_data = mutable_data_of<Accumulate>(loss);
    Accumulate* statistics_data = mutable_data_of<Accumulate>(statistics);
    for_launches(input, [&](const Rows<Element>& part, unsigned blocks) {
      launch(
          forward_kernel<kCapped, Element>, blocks, pack_threads<Element>(input.options.classes), inputs.scope.stream(),
          part, statistics_data, losses_data, loss_data);
    });
    launch(
        totals_kernel<Element>, static_cast<uint32_t>(runs), threads_for(rows / runs), inputs.scope.stream(), input,
        losses_data, sums_data);
    launch(
        finish_kernel<Accumulate>, 1, threads_for(runs), inputs.scope.stream(), sums_data, runs, total_weight_data,
        is_reduced ? loss_data : nullptr, reduction == Reduction::kMean);
  };
  with_rows(inputs, ignore_index, label_smoothing, z_loss, soft_cap, run);
  return {loss, statistics, total_weight};
}

Tensor cross_entropy_backward(
    const Tensor& grad_any, const Tensor& logits_any, const Tensor& targets_any, const OptionalTensor& weight,
    const Tensor& statistics_any, const Tensor& total_weight_any, int64_t ignore_index, double label_smoothing,
    double z_loss, const std::optional<double>& soft_cap, const std::string& reduction_name) {
  backward_calls.add();
  const Reduction reduction = reduction_of(reduction_name);
  check_cross_entropy(logits_any, targets_any, weight, label_smoothing, z_loss, soft_cap);
  check_cross_entropy_backward(
      grad_any, logits_any, statistics_any, total_weight_any, reduction, accumulate_kind(logits_any));
  const Inputs inputs(logits_any, targets_any, weight);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor statistics = as_contiguous(statistics_any);
  const Tensor total_weight = as_contiguous(total_weight_any);
  const Tensor grad_logits = new_like(inputs.logits);
  if (grad_logits.numel() == 0) return grad_logits;
  const int64_t grad_step = reduction == Reduction::kNone ? 1 : 0;
  const double* divisor = reduction == Reduction::kMean ? data_of<double>(total_weight) : nullptr;
  const auto run = [&]<class Element>(const Rows<Element>& input, auto is_capped) {
    using Accumulate = accumulate_t<Element>;
    constexpr bool kCapped = decltype(is_capped)::value;
    const Accumulate* grad_data = data_of<Accumulate>(grad);
    const Accumulate* statistics_data = data_of<Accumulate>(statistics);
    Element* grad_logits_data = mutable_data_of<Element>(grad_logits);
    for_launches(input, [&](const Rows<Element>& part, unsigned blocks) {
      launch(
          backward_kernel<kCapped, Element>, blocks, pack_threads<Element>(input.options.classes),
          inputs.scope.stream(), part, grad_data, grad_step, divisor, statistics_data, grad_logits_data);
    });
  };
  with_rows(inputs, ignore_index, label_smoothing, z_loss, soft_cap, run);
  return grad_logits;
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("cross_entropy", TORCH_BOX(&burnlike::cuda::cross_entropy));
  library.impl("cross_entropy_backward", TORCH_BOX(&burnlike::cuda::cross_entropy_backward));
}
