// gelu(x + bias) on CUDA: a thread takes 16 bytes of a row at a time. The arithmetic is in burnlike/bias_gelu.h.
#include "burnlike/bias_gelu.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <type_traits>

#include "burnlike/approximate.h"
#include "burnlike/calls.h"
#include "burnlike/row_tensor.h"
#include "burnlike/rows_check.h"
#include "packs.h"
#include "row_sums.h"

namespace burnlike::cuda {
namespace {

CallCounter forward_calls{"bias_gelu"};
CallCounter backward_calls{"bias_gelu_backward"};

template <int kPack, class Activation, class Element, class Weight>
__global__ void __launch_bounds__(kPackThreads)
    forward_kernel(RowPlaces<const Element> x, RowPlaces<const Weight> bias, RowPlaces<Element> y, PackGrid grid) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t index = first_pack(); index < grid.packs; index += pack_stride()) {
    const PackPlace place = grid.place(index);
    const auto values = unpacked(read_pack<kPack>(x, place, grid.width));
    const auto biases = read_pack<kPack>(bias, place, grid.width);
    Pack<Accumulate, kPack> outputs;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      outputs.values[lane] = bias_gelu_output<Activation>(values.values[lane], Accumulate(load(biases.values[lane])));
    }
    write_pack(y, place, grid.width, rounded<Element>(outputs));
  }
}

// Blocks of the gradient that a multiprocessor is to have room for: of the sigmoid nvcc 13 keeps values on the stack
// where it chooses by itself (0).
template <class Activation>
constexpr int kBackwardBlocks = std::is_same_v<Activation, SigmoidGelu> ? 3 : 0;

// A thread takes one pack of columns through a run of rows, reads the next row while it computes one, and writes its
// part of the gradient of the bias once, to its row of `partials`.
template <int kPack, class Activation, class Element, class Weight>
__global__ void __launch_bounds__(kPackThreads, kBackwardBlocks<Activation>) backward_kernel(
    RowPlaces<const Element> grad, RowPlaces<const Element> x, RowPlaces<const Weight> bias, RowPlaces<Element> grad_x,
    RowPlaces<accumulate_t<Element>> partials, int64_t rows, int64_t runs) {
  using Accumulate = accumulate_t<Element>;
  const int64_t run = blockIdx.x % runs;
  const int64_t column = (static_cast<int64_t>(blockIdx.x / runs) * blockDim.x + threadIdx.x) * kPack;
  if (column >= partials.stride) return;
  const int64_t end = rows * (run + 1) / runs;
  int64_t row = rows * run / runs;
  const auto biases = read_pack<kPack>(bias, {0, column});
  Pack<Accumulate, kPack> sums{};
  Pack<Element, kPack> next_slopes{};
  Pack<Element, kPack> next_values{};
  if (row < end) {
    next_slopes = read_pack<kPack>(grad, {row, column});
    next_values = read_pack<kPack>(x, {row, column});
  }
  for (; row < end; ++row) {
    const auto slopes = unpacked(next_slopes);
    const auto values = unpacked(next_values);
    if (row + 1 < end) {
      next_slopes = read_pack<kPack>(grad, {row + 1, column});
      next_values = read_pack<kPack>(x, {row + 1, column});
    }
    Pack<Accumulate, kPack> outputs;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      const Accumulate slope =
          bias_gelu_grad<Activation>(slopes.values[lane], values.values[lane], Accumulate(load(biases.values[lane])));
      outputs.values[lane] = slope;
      sums.values[lane] += slope;
    }
    write_pack(grad_x, {row, column}, rounded<Element>(outputs));
  }
  write_pack(partials, {run, column}, sums);
}

// Calls `function` with values of the element types of x and of the bias, and of the form of gelu.
template <class Function>
void with_types(const Tensor& x, const Tensor& bias, const std::string& approximate, Function&& function) {
  const bool by_sigmoid = is_sigmoid(approximate);
  const bool by_tanh = !by_sigmoid && is_tanh(approximate);
  const ElementKind kind = element_kind(x);
  const auto with_activation = [&](auto element, auto weight) {
    if (by_tanh) return function(element, weight, TanhGelu{});
    if (by_sigmoid) return function(element, weight, SigmoidGelu{});
    function(element, weight, Gelu{});
  };
  with_element_type(kind, [&](auto element) {
    if (element_kind(bias) == kind) return with_activation(element, element);
    with_activation(element, float{});
  });
}

Tensor bias_gelu(const Tensor& x_any, const Tensor& bias_any, const std::string& approximate) {
  forward_calls.add();
  const int64_t rows = weighted_rows(x_any, bias_any);
  const DeviceScope scope(x_any);
  const RowTensor x(x_any);
  const Tensor bias = as_contiguous(bias_any);
  const Tensor y = new_like(x_any);
  if (rows == 0) return y;
  with_types(x_any, bias, approximate, [&](auto element, auto weight, auto activation) {
    using Element = decltype(element);
    using Weight = decltype(weight);
    const int64_t width = bias.size(0);
    const RowPlaces<const Element> from = x.places<Element>();
    const RowPlaces<const Weight> biases{data_of<Weight>(bias), 0};
    const RowPlaces<Element> to{mutable_data_of<Element>(y), width};
    with_packs<Element>(
        rows, width,
        [&](auto pack, const PackGrid& grid) {
          launch(
              forward_kernel<pack, decltype(activation), Element, Weight>, grid.blocks(), kPackThreads, scope.stream(),
              from, biases, to, grid);
        },
        from, biases, to);
  });
  return y;
}

std::tuple<Tensor, Tensor> bias_gelu_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& bias_any, const std::string& approximate) {
  backward_calls.add();
  const int64_t rows = weighted_rows(x_any, bias_any);
  check_alike(grad_any, x_any);
  const DeviceScope scope(x_any);
  const RowTensor grad(grad_any);
  const RowTensor x(x_any);
  const Tensor bias = as_contiguous(bias_any);
  const Tensor grad_x = new_like(x_any);
  const Tensor grad_bias = new_like(bias);
  const int64_t width = bias.size(0);
  if (width == 0) return {grad_x, grad_bias};
  with_types(x_any, bias, approximate, [&](auto element, auto weight, auto activation) {
    using Element = decltype(element);
    using Weight = decltype(weight);
    using Accumulate = accumulate_t<Element>;
    // By the width alone, not by the packs that addresses allow: the bits of the sums depend on the number of runs.
    // As many as fill a large GPU, as if each thread had 8 columns, so that runs of narrow rows fill one, too.
    constexpr int64_t kThreads = 131072;
    const int64_t runs = row_runs(rows, std::max<int64_t>(1, kThreads / std::max<int64_t>(width / 8, kWarp)));
    const Tensor sums = new_contiguous({runs, width}, kind_of<Accumulate>, x_any);
    const RowPlaces<const Element> slopes = grad.places<Element>();
    const RowPlaces<const Element> from = x.places<Element>();
    const RowPlaces<const Weight> biases{data_of<Weight>(bias), 0};
    const RowPlaces<Element> to{mutable_data_of<Element>(grad_x), width};
    const RowPlaces<Accumulate> partials{mutable_data_of<Accumulate>(sums), width};
    with_packs<Element, false>(
        rows, width,
        [&](auto pack, const PackGrid&) {
          // Blocks in which few threads have no columns: of 96 threads for 768 values in 16 bits.
          const int64_t packs = width / pack;
          const int64_t columns = (packs + kPackThreads - 1) / kPackThreads;
          const int threads = row_threads((packs + columns - 1) / columns);
          launch(
              backward_kernel<pack, decltype(activation), Element, Weight>, static_cast<uint32_t>(columns * runs),
              threads, scope.stream(), slopes, from, biases, to, partials, rows, runs);
        },
        slopes, from, biases, to, partials);
    Weight* none = nullptr;
    add_columns(partials.data, mutable_data_of<Weight>(grad_bias), none, runs, width, scope.stream());
  });
  return {grad_x, grad_bias};
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("bias_gelu", TORCH_BOX(&burnlike::cuda::bias_gelu));
  library.impl("bias_gelu_backward", TORCH_BOX(&burnlike::cuda::bias_gelu_backward));
}
