// Gated linear units on the CPU: outputs and threads. The arithmetic is in isa/glu.inl.
#pragma once

#include <torch/csrc/stable/library.h>

#include <optional>
#include <tuple>

#include "burnlike/glu_tensors.h"
#include "isa/glu.h"
#include "rows.h"

namespace burnlike::cpu {

inline Tensor glu(const PerElement<GluKernels>& table, const Tensor& gate_any, const std::optional<Tensor>& up_any) {
  const GluTensors tensors(gate_any, up_any);
  const Tensor y = new_contiguous(tensors.sizes(), element_kind(gate_any), gate_any);
  if (tensors.count() == 0) return y;
  with_element_type(element_kind(gate_any), [&](auto element) {
    using Element = decltype(element);
    const auto forward = table(element).forward;
    const RowPlaces<const Element> gate = tensors.gate<Element>();
    const RowPlaces<const Element> up = tensors.up<Element>();
    Element* y_data = mutable_data_of<Element>(y);
    const int64_t width = tensors.width();
    if (tensors.is_flat()) {
      return for_rows(tensors.count(), 1, [&](int64_t begin, int64_t end) {
        forward({gate.data + begin, 0}, {up.data + begin, 0}, y_data + begin, 0, 1, end - begin);
      });
    }
    for_rows(tensors.rows(), width, [&](int64_t begin, int64_t end) { forward(gate, up, y_data, begin, end, width); });
  });
  return y;
}

inline std::tuple<Tensor, Tensor> glu_backward(
    const PerElement<GluKernels>& table, const Tensor& grad_any, const Tensor& gate_any,
    const std::optional<Tensor>& up_any) {
  const GluTensors tensors(gate_any, up_any);
  tensors.check_grad(grad_any);
  const std::tuple<Tensor, Tensor> grads = tensors.new_grads();
  if (tensors.count() == 0) return grads;
  const RowTensor grad_rows(grad_any);
  with_element_type(element_kind(gate_any), [&](auto element) {
    using Element = decltype(element);
    const auto backward = table(element).backward;
    const RowPlaces<const Element> grad = grad_rows.places<Element>();
    const RowPlaces<const Element> gate = tensors.gate<Element>();
    const RowPlaces<const Element> up = tensors.up<Element>();
    const auto [grad_gate, grad_up] = tensors.grad_places<Element>(grads);
    const int64_t width = tensors.width();
    if (tensors.is_flat() && (tensors.rows() == 1 || grad.stride == width)) {
      const auto run = [&, to_gate = grad_gate.data, to_up = grad_up.data](int64_t begin, int64_t end) {
        backward(
            {grad.data + begin, 0}, {gate.data + begin, 0}, {up.data + begin, 0}, {to_gate + begin, 0},
            {to_up + begin, 0}, 0, 1, end - begin);
      };
      return for_rows(tensors.count(), 1, run);
    }
    const auto run = [&, to_gate = grad_gate, to_up = grad_up](int64_t begin, int64_t end) {
      backward(grad, gate, up, to_gate, to_up, begin, end, width);
    };
    for_rows(tensors.rows(), width, run);
  });
  return grads;
}

}  // namespace burnlike::cpu
