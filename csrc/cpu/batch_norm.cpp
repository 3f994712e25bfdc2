// Batch normalization of rows on the CPU: checks, outputs and threads. The arithmetic is in isa/batch_norm.inl.
#include <torch/csrc/stable/library.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/rows_check.h"
#include "isa/batch_norm.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"batch_norm"};
CallCounter backward_calls{"batch_norm_backward"};

const PerElement<BatchNormKernels>& kernels_of(const std::string& activation) {
  if (activation == "relu") return relu_batch_norm_kernels();
  if (activation == "silu") return silu_batch_norm_kernels();
  if (activation == "hardswish") return hardswish_batch_norm_kernels();
  STD_TORCH_CHECK(activation == "none", "batch_norm: an unknown activation");
  return batch_norm_kernels();
}

void check_column(const Tensor& column, const Tensor& x, ElementKind kind) {
  check_place(column, x);
  STD_TORCH_CHECK(
      column.dim() == 1 && column.size(0) == x.size(x.dim() - 1) && element_kind(column) == kind,
      "batch_norm: a mean or variance has another shape or dtype");
}

int64_t check(
    const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean, const Tensor& variance,
    const std::string& activation, bool has_residual) {
  const int64_t rows = weighted_rows(x, gamma);
  weighted_rows(x, beta);
  check_column(mean, x, wide_kind(x));
  check_column(variance, x, wide_kind(x));
  STD_TORCH_CHECK(
      !has_residual || activation == "none" || activation == "relu",
      "batch_norm: a residual comes with no activation or relu");
  return rows;
}

// The numbers of each column in the type that is computed in.
template <class Accumulate>
struct ColumnValues {
  ColumnValues(
      const Tensor& gamma_any, const Tensor& beta_any, const Tensor& mean_any, const Tensor& variance_any,
      double epsilon)
      : gamma(as_contiguous(gamma_any)),
        beta(as_contiguous(beta_any)),
        mean(as_contiguous(mean_any)),
        scale(gamma.size(0)),
        inverse(gamma.size(0)),
        mean_grad(gamma.size(0)),
        pull(gamma.size(0)) {
    const Tensor variance = as_contiguous(variance_any);
    const Accumulate* variances = data_of<Accumulate>(variance);
    const Accumulate* gammas = values_of<Accumulate>(gamma, gamma_storage);
    betas = values_of<Accumulate>(beta, beta_storage);
    for (size_t column = 0; column < scale.size(); ++column) {
      inverse[column] = Accumulate(1) / std::sqrt(variances[column] + static_cast<Accumulate>(epsilon));
      scale[column] = gammas[column] * inverse[column];
    }
  }

  Columns<Accumulate> columns() const {
    return {data_of<Accumulate>(mean), scale.data(), betas, mean_grad.data(), pull.data()};
  }

  Tensor gamma, beta, mean;
  std::vector<Accumulate> gamma_storage, beta_storage, scale, inverse, mean_grad, pull;
  const Accumulate* betas = nullptr;
};

Tensor batch_norm(
    const Tensor& x_any, const Tensor& gamma, const Tensor& beta, const Tensor& mean, const Tensor& variance,
    const std::optional<Tensor>& residual_any, double epsilon, const std::string& activation, bool) {
  forward_calls.add();
  const auto& kernels = kernels_of(activation);
  const int64_t rows = check(x_any, gamma, beta, mean, variance, activation, residual_any.has_value());
  check_alike(residual_any, x_any);
  const Tensor x = as_contiguous(x_any);
  std::optional<Tensor> residual;
  if (residual_any) residual = as_contiguous(*residual_any);
  const Tensor y = new_like(x);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    const ColumnValues<accumulate_t<Element>> values(gamma, beta, mean, variance, epsilon);
    const auto columns = values.columns();
    const Element* x_data = data_of<Element>(x);
    const Element* residual_data = residual ? data_of<Element>(*residual) : nullptr;
    Element* y_data = mutable_data_of<Element>(y);
    const int64_t width = gamma.size(0);
    const auto forward = kernels(element).forward;
    for_rows(rows, width, [&](int64_t begin, int64_t end) {
      forward(x_data, residual_data, y_data, columns, begin, end, width);
    });
  });
  return y;
}

// `y` is the result where a residual was added before an activation; its gradient is the last result, else an empty
// tensor.
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
    const Tensor& variance, const std::optional<Tensor>& y_any, double epsilon, const std::string& activation,
    bool of_batch) {
  backward_calls.add();
  const auto& kernels = kernels_of(activation);
  const int64_t rows = check(x_any, gamma, beta, mean, variance, activation, y_any.has_value());
  check_alike(grad_any, x_any);
  check_alike(y_any, x_any);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor x = as_contiguous(x_any);
  std::optional<Tensor> y;
  if (y_any) y = as_contiguous(*y_any);
  const Tensor grad_x = new_like(x);
  const Tensor grad_gamma = new_like(gamma);
  const Tensor grad_beta = new_like(beta);
  const Tensor grad_residual = y ? new_like(x) : new_contiguous({0}, element_kind(x), x);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    ColumnValues<Accumulate> values(gamma, beta, mean, variance, epsilon);
    const auto columns = values.columns();
    const Element* grad_data = data_of<Element>(grad);
    const Element* x_data = data_of<Element>(x);
    const Element* y_data = y ? data_of<Element>(*y) : nullptr;
    Element* grad_x_data = mutable_data_of<Element>(grad_x);
    Element* grad_residual_data = y ? mutable_data_of<Element>(grad_residual) : nullptr;
    Element* kept_data = y ? grad_residual_data : grad_x_data;
    const int64_t width = gamma.size(0);
    const auto& table = kernels(element);
    const auto sums = sums_over_rows<Accumulate>(rows, 2 * width, [&](Accumulate* sum, int64_t begin, int64_t end) {
      table.sums(grad_data, x_data, y_data, kept_data, sum, columns, begin, end, width);
    });
    std::vector<Accumulate> of_gamma(width);
    for (int64_t column = 0; column < width; ++column) {
      const Accumulate inverse = values.inverse[column];
      of_gamma[column] = rows == 0 ? Accumulate(0) : sums[width + column] * inverse;
      if (of_batch && rows > 0) {
        values.mean_grad[column] = sums[column] / static_cast<Accumulate>(rows);
        values.pull[column] = of_gamma[column] * inverse / static_cast<Accumulate>(rows);
      }
    }
    store_values(of_gamma.data(), grad_gamma);
    store_values(sums.data(), grad_beta);
    for_rows(rows, width, [&](int64_t begin, int64_t end) {
      table.backward(grad_data, x_data, grad_residual_data, grad_x_data, columns, begin, end, width);
    });
  });
  return {grad_x, grad_gamma, grad_beta, grad_residual};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "batch_norm(Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor variance, Tensor? residual, float epsilon, "
      "str activation, bool of_batch) -> Tensor");
  library.def(
      "batch_norm_backward(Tensor grad, Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor variance, Tensor? y, "
      "float epsilon, str activation, bool of_batch) -> (Tensor, Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("batch_norm", TORCH_BOX(&burnlike::cpu::batch_norm));
  library.impl("batch_norm_backward", TORCH_BOX(&burnlike::cpu::batch_norm_backward));
}
