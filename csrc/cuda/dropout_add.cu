// residual + dropout(x) on CUDA: a thread takes 16 bytes of x at a time. The seed is read on the device.
#include "burnlike/calls.h"
#include "burnlike/dropout_add.h"
#include "burnlike/dropout_add_check.h"
#include "launch.h"
#include "packs.h"

namespace burnlike::cuda {
namespace {

CallCounter forward_calls{"dropout_add"};
CallCounter backward_calls{"dropout_add_backward"};

// A pack lies within one block of random bits.
template <int kPack, class Element, class Wide>
__global__ void __launch_bounds__(kPackThreads) forward_kernel(
    RowPlaces<const Element> x, RowPlaces<const Wide> residual, RowPlaces<Wide> y, PackGrid grid, double probability,
    const int64_t* seed) {
  using Accumulate = accumulate_t<Element>;
  static_assert(kBlock % kPack == 0);
  const Dropping<Accumulate> drop = dropping<Accumulate>(static_cast<uint64_t>(*seed), probability);
  for (int64_t index = first_pack(); index < grid.packs; index += pack_stride()) {
    const PackPlace place = grid.place(index);
    const auto values = unpacked(read_pack<kPack>(x, place, grid.width));
    const auto residuals = unpacked(read_pack<kPack>(residual, place, grid.width));
    const uint32_t block_key = random_block_key(drop.key, place.column / kBlock);
    const uint32_t first_lane = static_cast<uint32_t>(place.column % kBlock);
    Pack<Accumulate, kPack> outputs;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      const Accumulate factor = dropout_factor(block_key, first_lane + lane, drop);
      outputs.values[lane] = residuals.values[lane] + values.values[lane] * factor;
    }
    write_pack(y, place, grid.width, rounded<Wide>(outputs));
  }
}

template <int kPack, class Element, class Wide>
__global__ void __launch_bounds__(kPackThreads) backward_kernel(
    RowPlaces<const Wide> grad, RowPlaces<Element> grad_x, PackGrid grid, double probability, const int64_t* seed) {
  using Accumulate = accumulate_t<Element>;
  const Dropping<Accumulate> drop = dropping<Accumulate>(static_cast<uint64_t>(*seed), probability);
  for (int64_t index = first_pack(); index < grid.packs; index += pack_stride()) {
    const PackPlace place = grid.place(index);
    const auto grads = unpacked(read_pack<kPack>(grad, place, grid.width));
    const uint32_t block_key = random_block_key(drop.key, place.column / kBlock);
    const uint32_t first_lane = static_cast<uint32_t>(place.column % kBlock);
    Pack<Accumulate, kPack> outputs;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      const Accumulate factor = dropout_factor(block_key, first_lane + lane, drop);
      outputs.values[lane] = grads.values[lane] * factor;
    }
    write_pack(grad_x, place, grid.width, rounded<Element>(outputs));
  }
}

// Calls `function` with values of the type of x and of the residual, whose kinds are checked.
template <class Function>
void with_types(ElementKind kind, ElementKind wide_kind, Function&& function) {
  with_element_type(kind, [&](auto element) {
    if (wide_kind == kind) {
      function(element, element);
    } else {
      function(element, accumulate_t<decltype(element)>{});
    }
  });
}

Tensor dropout_add(const Tensor& x_any, const Tensor& residual_any, double probability, const Tensor& seed) {
  forward_calls.add();
  check_dropout_add(x_any, residual_any, probability, seed);
  const DeviceScope scope(x_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor residual = as_contiguous(residual_any);
  const Tensor y = new_like(residual);
  const int64_t count = x.numel();
  if (count == 0) return y;
  with_types(element_kind(x), element_kind(residual), [&](auto element, auto wide) {
    using Element = decltype(element);
    using Wide = decltype(wide);
    const RowPlaces<const Element> from{data_of<Element>(x), count};
    const RowPlaces<const Wide> sum{data_of<Wide>(residual), count};
    const RowPlaces<Wide> to{mutable_data_of<Wide>(y), count};
    const int64_t* seed_data = data_of<int64_t>(seed);
    with_packs<Element>(
        1, count,
        [&](auto pack, const PackGrid& grid) {
          launch(
              forward_kernel<pack, Element, Wide>, grid.blocks(), kPackThreads, scope.stream(), from, sum, to, grid,
              probability, seed_data);
        },
        from, sum, to);
  });
  return y;
}

Tensor dropout_add_backward(
    const Tensor& grad_any, double probability, const Tensor& seed, torch::headeronly::ScalarType dtype) {
  backward_calls.add();
  const ElementKind kind = element_kind(static_cast<int32_t>(dtype));
  check_dropout(probability, seed, grad_any);
  check_wide_kind(element_kind(grad_any), kind);
  const DeviceScope scope(grad_any);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor grad_x = new_like(grad, kind);
  const int64_t count = grad.numel();
  if (count == 0) return grad_x;
  with_types(kind, element_kind(grad), [&](auto element, auto wide) {
    using Element = decltype(element);
    using Wide = decltype(wide);
    const RowPlaces<const Wide> from{data_of<Wide>(grad), count};
    const RowPlaces<Element> to{mutable_data_of<Element>(grad_x), count};
    const int64_t* seed_data = data_of<int64_t>(seed);
    with_packs<Element>(
        1, count,
        [&](auto pack, const PackGrid& grid) {
          launch(
              backward_kernel<pack, Element, Wide>, grid.blocks(), kPackThreads, scope.stream(), from, to, grid,
              probability, seed_data);
        },
        from, to);
  });
  return grad_x;
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("dropout_add", TORCH_BOX(&burnlike::cuda::dropout_add));
  library.impl("dropout_add_backward", TORCH_BOX(&burnlike::cuda::dropout_add_backward));
}
