// Gated linear units on CUDA: a thread takes 16 bytes of a row at a time. The arithmetic is in burnlike/glu.h.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "burnlike/glu.h"
#include "burnlike/glu_tensors.h"
#include "launch.h"
#include "packs.h"

namespace burnlike::cuda {

// Four blocks at a time are enough: for six, ptxas would spill a register of float64.
template <int kPack, class Activation, class Element>
__global__ void __launch_bounds__(kPackThreads, 4) glu_forward_kernel(
    RowPlaces<const Element> gate, RowPlaces<const Element> up, RowPlaces<Element> y, PackGrid grid) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t index = first_pack(); index < grid.packs; index += pack_stride()) {
    const PackPlace place = grid.place(index);
    const auto gates = unpacked(read_pack<kPack>(gate, place, grid.width));
    const auto ups = unpacked(read_pack<kPack>(up, place, grid.width));
    Pack<Accumulate, kPack> outputs;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      outputs.values[lane] = glu_output<Activation>(gates.values[lane], ups.values[lane]);
    }
    write_pack(y, place, grid.width, rounded<Element>(outputs));
  }
}

template <int kPack, class Activation, class Element>
__global__ void __launch_bounds__(kPackThreads) glu_backward_kernel(
    RowPlaces<const Element> grad, RowPlaces<const Element> gate, RowPlaces<const Element> up,
    RowPlaces<Element> grad_gate, RowPlaces<Element> grad_up, PackGrid grid) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t index = first_pack(); index < grid.packs; index += pack_stride()) {
    const PackPlace place = grid.place(index);
    const auto slopes = unpacked(read_pack<kPack>(grad, place, grid.width));
    const auto gates = unpacked(read_pack<kPack>(gate, place, grid.width));
    const auto ups = unpacked(read_pack<kPack>(up, place, grid.width));
    Pack<Accumulate, kPack> gate_grads;
    Pack<Accumulate, kPack> up_grads;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      const GluGrads<Accumulate> grads =
          glu_grads<Activation>(slopes.values[lane], gates.values[lane], ups.values[lane]);
      gate_grads.values[lane] = grads.gate;
      up_grads.values[lane] = grads.up;
    }
    write_pack(grad_gate, place, grid.width, rounded<Element>(gate_grads));
    write_pack(grad_up, place, grid.width, rounded<Element>(up_grads));
  }
}

template <class Activation>
Tensor glu(const Tensor& gate_any, const std::optional<Tensor>& up_any) {
  const DeviceScope scope(gate_any);
  const GluTensors tensors(gate_any, up_any);
  const Tensor y = new_contiguous(tensors.sizes(), element_kind(gate_any), gate_any);
  if (tensors.count() == 0) return y;
  with_element_type(element_kind(gate_any), [&](auto element) {
    using Element = decltype(element);
    const int64_t width = tensors.width();
    const RowPlaces<const Element> gate = tensors.gate<Element>();
    const RowPlaces<const Element> up = tensors.up<Element>();
    const RowPlaces<Element> to{mutable_data_of<Element>(y), width};
    with_packs<Element>(
        tensors.rows(), width,
        [&](auto pack, const PackGrid& grid) {
          launch(
              glu_forward_kernel<pack, Activation, Element>, grid.blocks(), kPackThreads, scope.stream(), gate, up, to,
              grid);
        },
        gate, up, to);
  });
  return y;
}

template <class Activation>
std::tuple<Tensor, Tensor> glu_backward(
    const Tensor& grad_any, const Tensor& gate_any, const std::optional<Tensor>& up_any) {
  const DeviceScope scope(gate_any);
  const GluTensors tensors(gate_any, up_any);
  tensors.check_grad(grad_any);
  const std::tuple<Tensor, Tensor> grads = tensors.new_grads();
  if (tensors.count() == 0) return grads;
  const RowTensor grad_rows(grad_any);
  with_element_type(element_kind(gate_any), [&](auto element) {
    using Element = decltype(element);
    const RowPlaces<const Element> grad = grad_rows.places<Element>();
    const RowPlaces<const Element> gate = tensors.gate<Element>();
    const RowPlaces<const Element> up = tensors.up<Element>();
    const auto places = tensors.grad_places<Element>(grads);
    const RowPlaces<Element> to_gate = std::get<0>(places);
    const RowPlaces<Element> to_up = std::get<1>(places);
    with_packs<Element>(
        tensors.rows(), tensors.width(),
        [&](auto pack, const PackGrid& grid) {
          launch(
              glu_backward_kernel<pack, Activation, Element>, grid.blocks(), kPackThreads, scope.stream(), grad, gate,
              up, to_gate, to_up, grid);
        },
        grad, gate, up, to_gate, to_up);
  });
  return grads;
}

}  // namespace burnlike::cuda
