// Cross-entropy over classes on the CPU: checks, outputs and threads. The arithmetic is in isa/cross_entropy.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/cross_entropy_check.h"
#include "isa/cross_entropy.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"cross_entropy"};
CallCounter backward_calls{"cross_entropy_backward"};

// The targets, contiguous, of which each is a class or ignored.
Tensor checked_targets(const Tensor& targets_any, int64_t classes, int64_t ignore_index) {
  Tensor targets = contiguous_targets(targets_any);
  const auto is_outside = [&](int64_t target) { return (target < 0 || target >= classes) && target != ignore_index; };
  const int64_t* begin = data_of<int64_t>(targets);
  const int64_t* end = begin + targets.size(0);
  const int64_t* found = std::find_if(begin, end, is_outside);
  if (found == end) return targets;
  const std::string last = std::to_string(classes - 1);
  STD_TORCH_CHECK(
      false, "cross_entropy: target " + std::to_string(*found) + " is out of bounds, expected 0.." + last +
                 " or ignore_index " + std::to_string(ignore_index));
}

// The options with pointers into tensors that this object keeps.
template <class Accumulate>
struct Options {
  Options(
      const Tensor& logits, const OptionalTensor& weight, int64_t ignore_index, double label_smoothing, double z_loss,
      const std::optional<double>& soft_cap)
      : weights(weight) {
    const int64_t classes = logits.size(1);
    values = {
        nullptr,
        static_cast<double>(classes),
        classes,
        ignore_index,
        label_smoothing,
        z_loss,
        static_cast<Accumulate>(soft_cap.value_or(0.0))};
    if (!weights) return;
    weights = as_contiguous(*weights);
    values.weights = values_of<Accumulate>(*weights, storage);
    values.weight_sum = std::accumulate(values.weights, values.weights + classes, 0.0);
  }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  OptionalTensor weights;
  std::vector<Accumulate> storage;
  CrossEntropyOptions<Accumulate> values;
};

// The sum of the losses and that of the targets' weights. Rows are summed in blocks whose number depends on theirs
// alone, and the blocks in their order: the bits are the same for any number of threads.
template <class Run>
std::array<double, 2> sums_over_blocks(int64_t rows, int64_t classes, const Run& run) {
  const int64_t blocks = std::clamp<int64_t>(rows, 1, 256);
  std::vector<std::array<double, 2>> sums(blocks);
  for_rows(blocks, (rows * classes + blocks - 1) / blocks, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      run(sums[block].data(), rows * block / blocks, rows * (block + 1) / blocks);
    }
  });
  for (int64_t block = 1; block < blocks; ++block) {
    sums[0][0] += sums[block][0];
    sums[0][1] += sums[block][1];
  }
  return sums[0];
}

// The loss, what the backward pass needs of each row, and the sum of the targets' weights.
std::tuple<Tensor, Tensor, Tensor> cross_entropy(
    const Tensor& logits_any, const Tensor& targets_any, const OptionalTensor& weight, int64_t ignore_index,
    double label_smoothing, double z_loss, const std::optional<double>& soft_cap, const std::string& reduction_name) {
  forward_calls.add();
  const Reduction reduction = reduction_of(reduction_name);
  check_cross_entropy(logits_any, targets_any, weight, label_smoothing, z_loss, soft_cap);
  const Tensor logits = as_contiguous(logits_any);
  const int64_t rows = logits.size(0);
  const int64_t classes = logits.size(1);
  const Tensor targets = checked_targets(targets_any, classes, ignore_index);
  const int64_t* targets_data = data_of<int64_t>(targets);
  return with_element_type(element_kind(logits), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    const bool is_reduced = reduction != Reduction::kNone;
    const Tensor loss =
        new_contiguous(is_reduced ? std::vector<int64_t>{} : std::vector<int64_t>{rows}, kind_of<Accumulate>, logits);
    const Tensor statistics = new_contiguous({rows, 2}, kind_of<Accumulate>, logits);
    const Tensor total_weight = new_contiguous({}, ElementKind::kFloat64, logits);
    const Options<Accumulate> options(logits, weight, ignore_index, label_smoothing, z_loss, soft_cap);
    const auto forward = cross_entropy_kernels()(element).forward;
    const Element* logits_data = data_of<Element>(logits);
    Accumulate* statistics_data = mutable_data_of<Accumulate>(statistics);
    Accumulate* loss_data = mutable_data_of<Accumulate>(loss);
    Accumulate* losses = is_reduced ? nullptr : loss_data;
    const auto sums = sums_over_blocks(rows, classes, [&](double* sum, int64_t begin, int64_t end) {
      forward(logits_data, targets_data, options.values, statistics_data, losses, sum, begin, end);
    });
    if (reduction == Reduction::kMean) *loss_data = static_cast<Accumulate>(sums[0] / sums[1]);
    if (reduction == Reduction::kSum) *loss_data = static_cast<Accumulate>(sums[0]);
    *mutable_data_of<double>(total_weight) = sums[1];
    return std::make_tuple(loss, statistics, total_weight);
  });
}

Tensor cross_entropy_backward(
    const Tensor& grad_any, const Tensor& logits_any, const Tensor& targets_any, const OptionalTensor& weight,
    const Tensor& statistics_any, const Tensor& total_weight_any, int64_t ignore_index, double label_smoothing,
    double z_loss, const std::optional<double>& soft_cap, const std::string& reduction_name) {
  backward_calls.add();
  const Reduction reduction = reduction_of(reduction_name);
  check_cross_entropy(logits_any, targets_any, weight, label_smoothing, z_loss, soft_cap);
  const Tensor logits = as_contiguous(logits_any);
  const int64_t rows = logits.size(0);
  const int64_t classes = logits.size(1);
  const Tensor targets = checked_targets(targets_any, classes, ignore_index);
  const int64_t* targets_data = data_of<int64_t>(targets);
  return with_element_type(element_kind(logits), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    check_cross_entropy_backward(grad_any, logits, statistics_any, total_weight_any, reduction, kind_of<Accumulate>);
    const Tensor grad = as_contiguous(grad_any);
    const Tensor statistics = as_contiguous(statistics_any);
    const Tensor total_weight = as_contiguous(total_weight_any);
    const Tensor grad_logits = new_like(logits);
    const Options<Accumulate> options(logits, weight, ignore_index, label_smoothing, z_loss, soft_cap);
    const auto backward = cross_entropy_kernels()(element).backward;
    const Accumulate* grad_data = data_of<Accumulate>(grad);
    const Accumulate* statistics_data = data_of<Accumulate>(statistics);
    const Element* logits_data = data_of<Element>(logits);
    Element* grad_logits_data = mutable_data_of<Element>(grad_logits);
    const int64_t grad_step = reduction == Reduction::kNone ? 1 : 0;
    const double divisor = reduction == Reduction::kMean ? *data_of<double>(total_weight) : 1.0;
    for_rows(rows, classes, [&](int64_t begin, int64_t end) {
      backward(
          grad_data, grad_step, divisor, logits_data, targets_data, options.values, statistics_data, grad_logits_data,
          begin, end);
    });
    return grad_logits;
  });
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "cross_entropy(Tensor logits, Tensor targets, Tensor? weight, int ignore_index, float label_smoothing, "
      "float z_loss, float? soft_cap, str reduction) -> (Tensor, Tensor, Tensor)");
  library.def(
      "cross_entropy_backward(Tensor grad, Tensor logits, Tensor targets, Tensor? weight, Tensor statistics, "
      "Tensor total_weight, int ignore_index, float label_smoothing, float z_loss, float? soft_cap, str reduction) -> "
      "Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("cross_entropy", TORCH_BOX(&burnlike::cpu::cross_entropy));
  library.impl("cross_entropy_backward", TORCH_BOX(&burnlike::cpu::cross_entropy_backward));
}
